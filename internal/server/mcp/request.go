package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/catalog"
	"github.com/toolroom/toolroom/internal/jsonx"
	"github.com/toolroom/toolroom/mcp"
	"github.com/toolroom/toolroom/source"
)

const (
	// maxBody is the size, in bytes, of the largest request: the runner's limit for arguments,
	// and some space for the rest of the message.
	maxBody = 5 << 20
	// firstModern is the first revision without sessions.
	firstModern = "2026-07-28"
	// lastLegacy is the last revision with sessions.
	lastLegacy = "2025-11-25"
)

// request is one request of a client, with its caller and the client's capabilities. If the
// client has a session, the request is the [source.Asker] of its call: it sends questions to
// the client as requests.
type request struct {
	*mcp.ServerRequest
	// answers are the answers to the questions of the previous round.
	answers map[string]json.RawMessage
	ctx     context.Context
	who     toolroom.Identity
	server  *Server
	can     clientCapabilities
	// key is the idempotency key that the client gives the call.
	key string
	// tool is the tool that tools/call names; nil for other methods.
	tool *calledTool
}

// calledTool is the tool that a request calls.
type calledTool struct {
	name    string // as the client wrote it
	who     toolroom.Identity
	entry   *catalog.Entry // nil for a tool of this server, and for one that was not found
	pending *toolroom.Call // names the tool until it has been looked up; nil for a tool of this server
}

// clientCapabilities are the capabilities of the client of a request.
type clientCapabilities struct {
	methods map[string]bool // methods of the questions that it answers
	raw     json.RawMessage // as the client declared them; nil if there are none
	tasks   bool
	pages   bool // it shows pages of MCP Apps
	// form and url are the modes of elicitation that it supports.
	form, url bool
}

func (s *Server) newRequest(ctx context.Context, r *mcp.ServerRequest) *request {
	who := s.o.Identity(ctx)
	q := &request{ServerRequest: r, answers: r.InputResponses, ctx: s.withoutHidden(ctx, who), who: who, server: s, can: readCapabilities(r.Capabilities)}
	q.can.tasks = q.can.tasks && s.o.Worker != nil
	q.tool, _ = r.Value.(*calledTool)
	if len(r.Meta) > 0 {
		q.key = idempotencyKey(r.Meta)
	}
	return q
}

// metaIdempotencyKey is the member of _meta for an idempotency key. Revision 2026-07-28 has no
// other safe way to repeat a call.
const metaIdempotencyKey = "toolroom/idempotencyKey"

func idempotencyKey(meta json.RawMessage) string {
	if !bytes.Contains(meta, []byte("idempotencyKey")) && bytes.IndexByte(meta, '\\') < 0 {
		return "" // most requests have none, so most metadata need not be parsed
	}
	o, err := mcp.ReadObject(meta)
	if err != nil {
		return ""
	}
	var key string
	_ = json.Unmarshal(o.Get(metaIdempotencyKey), &key) // a value of another type is ignored
	return key
}

func readCapabilities(capabilities json.RawMessage) clientCapabilities {
	if len(capabilities) == 0 || string(capabilities) == "{}" {
		return clientCapabilities{}
	}
	a := clientCapabilities{raw: capabilities}
	members, err := jsonx.Members(capabilities)
	if err != nil {
		return a
	}
	for _, m := range members {
		if string(m.Value) == "null" {
			continue
		}
		switch m.Name {
		case "elicitation":
			a.addMethod(source.MethodElicit)
			var modes struct{ Form, URL *struct{} }
			_ = json.Unmarshal(m.Value, &modes) // without modes, the client supports forms
			a.form, a.url = modes.Form != nil || modes.URL == nil, modes.URL != nil
		case "sampling":
			a.addMethod(source.MethodSample)
		case "roots":
			a.addMethod(source.MethodRoots)
		case "extensions":
			var extensions map[string]json.RawMessage
			_ = json.Unmarshal(m.Value, &extensions) // a value of another type is ignored
			_, a.tasks = extensions[tasksExtension]
			_, a.pages = extensions[appsExtension]
		}
	}
	return a
}

func (a *clientCapabilities) addMethod(method string) {
	if a.methods == nil {
		a.methods = map[string]bool{}
	}
	a.methods[method] = true
}

// Can reports whether the client answers questions of a method.
func (a *clientCapabilities) Can(method string) bool { return a.methods[method] }

// Can reports whether the client answers questions of a method.
func (r *request) Can(method string) bool { return r.can.Can(method) }

// Capabilities returns the client's capabilities as it declared them.
func (r *request) Capabilities() json.RawMessage { return r.can.raw }

// RecordTask does nothing: a task has another asker.
func (r *request) RecordTask(context.Context, json.RawMessage) error { return nil }

// session returns the id of the client's session, or "" if it has none.
func (r *request) session() string {
	if r.Session == nil {
		return ""
	}
	return r.Session.ID()
}

// digest returns a digest of the request, so that the state of one request is not accepted
// with another.
func (r *request) digest() []byte { return requestDigest(r.Method, r.Name, r.Arguments) }

// The following methods implement client for a request whose call ends with it.

func (r *request) currentRequest() *request { return r }

func (r *request) acceptsTasks() bool { return false }

func (r *request) outlivesRequest() bool { return false }

// supportsRounds reports whether the response to the request may be questions or a task, or
// the request belongs to a later round.
func (r *request) supportsRounds() bool {
	return r.Modern() && (len(r.can.methods) > 0 || r.can.tasks || r.RequestState != "")
}

// Ask sends all questions to the client at once and returns when all are answered.
func (r *request) Ask(ctx context.Context, questions map[string]source.Question) (map[string]json.RawMessage, error) {
	return r.AskAbout(ctx, questions, "")
}

// AskAbout implements client.
func (r *request) AskAbout(ctx context.Context, questions map[string]source.Question, _ string) (map[string]json.RawMessage, error) {
	if err := checkAnswerable(r, questions); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type reply struct {
		key    string
		answer json.RawMessage
		err    error
	}
	replies := make(chan reply, len(questions))
	for key, q := range questions {
		go func() {
			answer, err := r.askOne(ctx, q)
			replies <- reply{key, answer, err}
		}()
	}
	answers := make(map[string]json.RawMessage, len(questions))
	var failed error
	for range questions {
		r := <-replies
		if r.err != nil && failed == nil {
			failed = r.err
			cancel()
		}
		answers[r.key] = r.answer
	}
	return answers, failed
}

// askOne sends one question to a client with a session and waits for its answer.
func (r *request) askOne(ctx context.Context, q source.Question) (json.RawMessage, error) {
	call := ctx
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if q.Until != nil {
		defer context.AfterFunc(q.Until, func() { cancel(context.Cause(q.Until)) })()
	}
	if q.Method == source.MethodElicit {
		if err := r.checkElicitation(q); err != nil {
			return nil, err
		}
		r.server.urlQuestions.put(q, r.Session)
	}
	raw, err := r.ServerRequest.Ask(ctx, mcp.Question{Method: q.Method, Params: q.Params, Progress: q.Progress})
	if err != nil {
		if call.Err() != nil {
			return nil, call.Err()
		}
		if q.Until != nil && q.Until.Err() != nil {
			return nil, nil
		}
		return nil, unansweredError(q.Method, err)
	}
	if !fitsQuestion(q, raw) {
		return nil, toolroom.Errorf(toolroom.CodeUpstreamError, "the client's answer to %s does not match the requested schema", q.Method)
	}
	return raw, nil
}

// checkElicitation returns an error if the client does not support the mode of an elicitation.
func (r *request) checkElicitation(q source.Question) error {
	var mode struct {
		Mode string `json:"mode"`
	}
	if len(q.Params) > 0 {
		if err := json.Unmarshal(q.Params, &mode); err != nil {
			return toolroom.Errorf(toolroom.CodeInvalidArguments, "invalid parameters of %s: %w", q.Method, err)
		}
	}
	switch {
	case mode.Mode == "url" && !r.can.url:
		return unansweredError(q.Method, errors.New(`client does not support "url" elicitation`))
	case mode.Mode != "url" && !r.can.form:
		return unansweredError(q.Method, errors.New(`client does not support "form" elicitation`))
	}
	return nil
}

// unansweredError returns the error of a question that the client did not answer. The source
// that asked receives the client's own error.
func unansweredError(method string, err error) error {
	if failed := (*mcp.Error)(nil); errors.As(err, &failed) {
		err = &source.Refusal{Code: failed.Code, Message: failed.Message, Data: failed.Data, Sent: failed.Sent}
	}
	return toolroom.Errorf(toolroom.CodeUpstreamError, "the client did not answer %s: %w", method, err)
}

// checkAnswerable returns an error if the client does not support one of the questions.
func checkAnswerable(a source.Asker, questions map[string]source.Question) error {
	for _, q := range questions {
		if !a.Can(q.Method) {
			return source.Unanswerable(q.Method)
		}
	}
	return nil
}
