package api

import (
	"net/http"
	"reflect"

	"github.com/danielgtaylor/huma/v2"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/artifact"
	"github.com/toolroom/toolroom/internal/code"
)

// operation is an operation of the API, which its methods describe further.
type operation huma.Operation

func get(id, path, tag, summary string) operation {
	return operation{OperationID: id, Method: http.MethodGet, Path: path, Tags: []string{tag}, Summary: summary}
}

func post(id, path, tag, summary string) operation {
	return operation{OperationID: id, Method: http.MethodPost, Path: path, Tags: []string{tag}, Summary: summary}
}

func put(id, path, tag, summary string) operation {
	return operation{OperationID: id, Method: http.MethodPut, Path: path, Tags: []string{tag}, Summary: summary}
}

func del(id, path, tag, summary string) operation {
	return operation{OperationID: id, Method: http.MethodDelete, Path: path, Tags: []string{tag}, Summary: summary}
}

// status sets the status of a success, if it is neither 200 nor, without a body, 204.
func (o operation) status(code int) operation {
	o.DefaultStatus = code
	return o
}

func (o operation) body(b *huma.RequestBody) operation {
	o.RequestBody = b
	return o
}

func (o operation) responses(all map[string]*huma.Response) operation {
	o.Responses = all
	return o
}

// ok sets the response with status 200 of an operation that writes it itself.
func (o operation) ok(description string, content map[string]*huma.MediaType) operation {
	return o.responses(map[string]*huma.Response{"200": {Description: description, Content: content}})
}

// text returns content that is text of a media type.
func text(mediaType, description string) map[string]*huma.MediaType {
	return map[string]*huma.MediaType{mediaType: {Schema: &huma.Schema{Type: huma.TypeString, Description: description}}}
}

// outcomes describes the responses of an operation whose outcome, even after a failure, is a T.
func outcomes[T any](s *Server, succeeded, refused, failed string) map[string]*huma.Response {
	return map[string]*huma.Response{
		"200": jsonResponse[T](s, succeeded), "4XX": failure[T](s, refused), "5XX": failure[T](s, failed),
	}
}

// routes registers all operations. Who may call them and what they do is in their handlers.
func (s *Server) routes() {
	register(s, get("list-tools", "/tools", "tools", "List the tools that the caller may call"), s.listTools)
	register(s, get("describe-tool", "/tools/{id}", "tools", "Describe a tool"), s.describeTool)
	register(s, get("search-tools", "/search", "tools", "Search for tools by what they do"), s.searchTools)
	register(s, get("stubs", "/stubs", "tools", "Get type declarations of the tools that the caller may call, for programs").
		ok("A .d.ts file or Python stubs", text("text/plain", "")), s.stubs)

	// delivered describes the responses of a call in each form that its caller can select.
	delivered := func(succeeded, accepted, refused, failed, streamed string) map[string]*huma.Response {
		all := outcomes[toolroom.Result](s, succeeded, refused, failed)
		all["200"].Content[eventStream] = text(eventStream, streamed)[eventStream]
		all["202"] = jsonResponse[Accepted](s, accepted)
		return all
	}
	called := func() map[string]*huma.Response {
		return delivered("The call succeeded", "The call is durable and will run; Location is its address", "The call was refused", "The tool or its source failed",
			"called, progress, chunk, log, notice and approval, then exactly one done or error, each with an event object as data")
	}
	register(s, post("call-tool", "/tools/{id}/call", "calls", "Call a tool").body(jsonBody[CallRequest](s)).responses(called()), s.callTool)
	register(s, post("call", "/call", "calls", "Call the tool named in the body").body(jsonBody[NamedCallRequest](s)).responses(called()), s.callNamed)
	register(s, post("chain", "/chain", "calls", "Run a sequence of tool calls").body(jsonBody[ChainRequest](s)).
		responses(outcomes[toolroom.ChainResult](s, "All steps succeeded", "A step was refused", "A step failed")), s.chain)
	register(s, post("batch", "/batch", "calls", "Run several tool calls in parallel").body(jsonBody[BatchRequest](s)).
		responses(map[string]*huma.Response{"200": jsonResponse[BatchResponse](s, "The results, each with its own status")}), s.batch)
	register(s, post("execute", "/execute", "calls", "Run a program that calls tools").body(jsonBody[code.Request](s)).
		responses(delivered("The program succeeded; execution has its runtime and output", "The run is durable and will start; Location is its address", "The program was refused", "The program failed",
			"the program's output as chunk events, its tool calls, then one done or error")), s.execute)

	register(s, get("list-calls", "/calls", "calls", "List the receipts of calls, newest first"), s.listReceipts)
	register(s, get("get-call", "/calls/{id}", "calls", "Get a call: its state, result and receipt"), s.getCall)
	register(s, post("cancel-call", "/calls/{id}/cancel", "calls", "Cancel a running or queued call").status(http.StatusAccepted), s.cancelCall)
	register(s, get("list-runs", "/runs", "calls", "List running calls, suspended programs and background calls, newest first"), s.listRuns)
	register(s, get("calls-overview", "/metrics/overview", "calls", "Statistics of calls from their receipts: rates, success, queue and run time"), s.overview)
	register(s, get("calls-timeseries", "/metrics/timeseries", "calls", "The same for each step of time"), s.series)
	const lost = "events of calls; an event named lost has the number of events that were dropped because the client reads too slowly"
	register(s, get("follow-calls", "/events", "events", "Stream the events of all calls that the caller may see").ok("Events", text(eventStream, lost)), s.followCalls)
	register(s, get("follow-call", "/calls/{id}/events", "events", "Stream the events of a call until it ends").ok("Events", text(eventStream, lost)), s.followCall)

	register(s, get("list-approvals", "/approvals", "approvals", "List approvals, newest first"), s.listApprovals)
	register(s, get("get-approval", "/approvals/{id}", "approvals", "Get an approval"), s.getApproval)
	register(s, post("answer-approval", "/approvals/{id}", "approvals", "Approve or decline a call").body(jsonBody[AnswerRequest](s)), s.answerApproval)
	register(s, get("follow-approvals", "/approvals/events", "approvals", "Stream approvals: the pending ones, then each change").
		ok("Events named after the approval's state, each with the whole approval", text(eventStream, "")), s.followApprovals)
	register(s, get("list-approval-rules", "/approvals/rules", "approvals", "List approval rules: your own, or all for operators"), s.listGrants)
	register(s, del("remove-approval-rule", "/approvals/rules/{id}", "approvals", "Remove an approval rule"), s.removeGrant)

	file := map[string]*huma.MediaType{octets: {Schema: &huma.Schema{Type: huma.TypeString, Format: "binary"}}}
	upload := &huma.RequestBody{Required: true, Content: file}
	register(s, get("list-artifacts", "/artifacts", "artifacts", "List the caller's artifacts"), s.listArtifacts)
	register(s, get("get-artifact", "/artifacts/{handle}", "artifacts", "Get an artifact's metadata"), s.getArtifact)
	register(s, get("read-artifact", "/artifacts/{handle}/content", "artifacts", "Read a page of an artifact, or all its bytes").
		ok("The page or the bytes", map[string]*huma.MediaType{"application/json": {Schema: s.schema(reflect.TypeFor[artifact.Page]())}, octets: file[octets]}), s.readArtifact)
	register(s, post("upload-artifact", "/artifacts", "artifacts", "Upload a file as an artifact; Content-Type is its media type").status(http.StatusCreated).body(upload), s.uploadArtifact)
	register(s, del("delete-artifact", "/artifacts/{handle}", "artifacts", "Delete an artifact"), s.deleteArtifact)
	register(s, get("list-sessions", "/sessions", "sessions", "List the caller's code sessions"), s.listSessions)
	register(s, post("fork-session", "/sessions/{id}/fork", "sessions", "Copy a code session").status(http.StatusCreated), s.forkSession)
	register(s, get("export-session", "/sessions/{id}/export", "sessions", "Export a code session as a file, including the values of its variables").ok("The file", file), s.exportSession)
	register(s, post("import-session", "/sessions", "sessions", "Import an exported code session; the file holds code that the next program runs").status(http.StatusCreated).body(upload), s.importSession)
	register(s, del("delete-session", "/sessions/{id}", "sessions", "Delete a code session"), s.deleteSession)

	register(s, get("explain-policy", "/policy/explain", "policy", "Explain why policy allows, denies or asks to confirm a tool"), s.explainPolicy)
	register(s, get("list-elevations", "/policy/elevations", "policy", "List elevations; operators only"), s.listElevations)
	register(s, post("elevate", "/policy/elevations", "policy", "Let another caller use sensitive tools for a limited time; operators only").body(jsonBody[ElevationRequest](s)), s.elevate)
	register(s, del("end-elevation", "/policy/elevations/{id}", "policy", "End an elevation; operators only"), s.endElevation)

	register(s, get("list-versioned-tools", "/versions", "releases", "List the tools that have versions; operators only"), s.listVersioned)
	register(s, get("show-versions", "/versions/{id}", "releases", "Show the versions, releases and cases of a tool; operators only"), s.showVersions)
	register(s, get("diff-versions", "/versions/diff", "releases", "Show what changed between two versions; operators only"), s.diffVersions)
	register(s, post("push", "/versions", "releases", "Store code as new draft versions; operators only").body(jsonBody[UploadRequest](s)), s.push)
	register(s, post("deprecate", "/versions/deprecate", "releases", "Mark a version so that it is not released again; operators only").body(jsonBody[DeprecateRequest](s)), s.deprecate)
	register(s, post("try", "/versions/test", "releases", "Call a version, or run its saved cases; operators only").body(jsonBody[TryRequest](s)), s.try)
	register(s, post("release", "/releases", "releases", "Make an environment serve a version; operators only").body(jsonBody[ReleaseRequest](s)), s.release)
	register(s, post("promote", "/releases/promote", "releases", "Release to one environment what another serves; operators only").body(jsonBody[PromoteRequest](s)), s.promote)
	register(s, post("rollback", "/releases/rollback", "releases", "Undo the last release; operators only").body(jsonBody[RollbackRequest](s)), s.rollback)
	register(s, get("release-log", "/releases/log", "releases", "Show who pushed and released what; operators only"), s.releaseLog)
	register(s, get("shadow-report", "/releases/shadow", "releases", "Show how the values of a shadow differ; operators only"), s.shadowReport)
	register(s, get("list-cases", "/cases", "releases", "List saved cases; operators only"), s.listCases)
	register(s, post("save-case", "/cases", "releases", "Save a case; operators only").body(jsonBody[CaseRequest](s)), s.saveCase)
	register(s, del("remove-case", "/cases/{id}/{name}", "releases", "Remove a saved case; operators only"), s.removeCase)

	register(s, get("list-tokens", "/tokens", "tokens", "List the access tokens, newest first; operators only"), s.listTokens)
	register(s, post("create-token", "/tokens", "tokens", "Create an access token, whose text is in this answer alone; operators only").status(http.StatusCreated).body(jsonBody[TokenRequest](s)), s.createToken)
	register(s, del("revoke-token", "/tokens/{id}", "tokens", "Revoke an access token; operators only"), s.revokeToken)
	register(s, get("list-sources", "/sources", "sources", "List tool sources and their states; operators only"), s.listSources)
	register(s, get("get-source", "/sources/{name}", "sources", "Get a source, with its section of the config; operators:sources"), s.getSource)
	register(s, post("add-source", "/sources", "sources", "Add a source to the config file, start it and list its tools; operators only").status(http.StatusCreated).body(jsonBody[SourceRequest](s)), s.addSource)
	register(s, put("edit-source", "/sources/{name}", "sources", "Replace the section of a source in the config file; operators only").body(jsonBody[EditRequest](s)), s.editSource)
	register(s, del("remove-source", "/sources/{name}", "sources", "Remove a source from the config file; operators only"), s.removeSource)
	register(s, post("enable-source", "/sources/{name}/enable", "sources", "Turn a disabled source on; operators only"), s.enableSource)
	register(s, post("disable-source", "/sources/{name}/disable", "sources", "Turn a source off, and keep it in the config file; operators only"), s.disableSource)
	register(s, post("restart-source", "/sources/{name}/restart", "sources", "Start a source anew, once its calls have ended; operators:sources"), s.restartSource)
	register(s, post("test-source", "/sources/{name}/test", "sources", "Start a source and list its tools; operators:sources"), s.testSource)
	register(s, get("get-source-logs", "/sources/{name}/logs", "sources", "Show what the program of a source has written to stderr; operators:sources"), s.sourceLogs)
	register(s, get("list-secrets", "/secrets", "secrets", "List the names of secrets; operators:secrets"), s.listSecrets)
	register(s, put("set-secret", "/secrets/{scope}/{name}", "secrets", "Store a secret, which cannot be read back; operators:secrets").body(jsonBody[SecretRequest](s)), s.setSecret)
	register(s, del("remove-secret", "/secrets/{scope}/{name}", "secrets", "Remove a secret; operators:secrets"), s.removeSecret)
	register(s, get("get-audit-head", "/audit/head", "audit", "Get the end of the chain of receipts; operators:audit"), s.auditHead)
	register(s, post("verify-audit", "/audit/verify", "audit", "Verify the chain of receipts; operators:audit"), s.verifyAudit)
	register(s, get("list-audit", "/audit/receipts", "audit", "List the receipts of all callers, newest first; operators:audit"), s.listAudit)
	register(s, get("get-config", "/config", "config", "Get the config in force, without secrets; operators:config"), s.getConfig)
	register(s, get("check-config", "/config/check", "config", "Check the config file, and say what a reload would change; operators:config"), s.checkConfig)
	register(s, post("reload-config", "/config/reload", "config", "Read the config again; operators only"), s.reloadConfig)
}
