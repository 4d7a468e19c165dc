package surface

import (
	"encoding/json"
	"net/http"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/app"
	"github.com/toolroom/toolroom/internal/config"
	"github.com/toolroom/toolroom/internal/run"
	"github.com/toolroom/toolroom/room"
)

// These tests fail for each new operation, command, method and engine until it is listed
// here, with the row that tests it or as one that calls no tool. So no handler is added
// without a row.

func TestEveryOperationOfHTTPIsAHandlerOrCallsNothing(t *testing.T) {
	t.Parallel()
	f := serve(t)
	status, text := f.request(t, http.MethodGet, toolroom.Identity{}, "/api/v1/openapi.json", "")
	var document struct {
		Paths map[string]map[string]struct{ OperationID string }
	}
	if err := json.Unmarshal(text, &document); err != nil || status != http.StatusOK {
		t.Fatalf("%d %v", status, err)
	}
	var operations []string
	for _, methods := range document.Paths {
		for _, o := range methods {
			operations = append(operations, o.OperationID)
		}
	}
	checkNames(t, operations, map[string]string{
		"call-tool": "HTTP, the tool in the path",
		"call":      "HTTP, the tool in the body",
		"batch":     "HTTP batch",
		"chain":     "HTTP chain",
		"execute":   "code mode over HTTP",
	}, strings.Fields(`list-approvals follow-approvals list-approval-rules remove-approval-rule get-approval answer-approval
		list-artifacts upload-artifact delete-artifact get-artifact read-artifact list-calls get-call cancel-call follow-call follow-calls
		list-versioned-tools show-versions push release promote rollback deprecate release-log list-cases remove-case list-elevations elevate end-elevation explain-policy list-runs search-tools list-sessions import-session delete-session export-session
		fork-session list-sources stubs list-tools describe-tool diff-versions add-source get-source edit-source remove-source enable-source disable-source test-source get-source-logs
		list-secrets set-secret remove-secret list-audit get-audit-head verify-audit get-config check-config calls-overview calls-timeseries shadow-report restart-source
		reload-config list-tokens create-token revoke-token`+functionsOnly))
}

// functionsOnly lists operations that call versions of functions only, which the attempts
// of this test are not. Their calls are in the tests of cmd/toolroom.
const functionsOnly = " try save-case"

func TestEveryCommandIsAHandlerOrCallsNothing(t *testing.T) {
	t.Parallel()
	f := serve(t)
	_, help := f.command(t, "--help")
	_, list, _ := strings.Cut(help, "Use tools:")
	list, _, _ = strings.Cut(list, "\nFlags:")
	var commands []string
	for _, m := range regexp.MustCompile(`(?m)^  ([a-z]+) `).FindAllStringSubmatch(list, -1) {
		commands = append(commands, m[1])
	}
	checkNames(t, commands, map[string]string{
		"call":  "command line",
		"chain": "command line, chain",
		"exec":  "code mode on the command line",
		"runs":  "Go, a call that is resumed", // wait resumes a run
		"serve": "MCP of 2025-11-25",          // and the same server on stdio
	}, strings.Fields(`trust approve artifact audit backup bench calls completion config connect describe doctor explain gc help image import init
		policy reload restore runner search secret service session setup sources status stubs temporal token tool tools update version`)) // tool: see functionsOnly
}

func TestEveryMethodOfARoomThatTakesACallIsAHandler(t *testing.T) {
	t.Parallel()
	for _, r := range []reflect.Type{reflect.TypeFor[*app.App](), reflect.TypeFor[*room.Room]()} {
		t.Run(r.String(), func(t *testing.T) {
			t.Parallel()
			everyMethodIsAHandler(t, r)
		})
	}
}

func everyMethodIsAHandler(t *testing.T, r reflect.Type) {
	t.Helper()
	var methods []string
	for i := range r.NumMethod() {
		m := r.Method(i)
		var types []reflect.Type
		for j := range m.Type.NumIn() {
			types = append(types, m.Type.In(j))
		}
		for j := range m.Type.NumOut() {
			types = append(types, m.Type.Out(j))
		}
		if slices.ContainsFunc(types, takesCall) {
			methods = append(methods, m.Name)
		}
	}
	checkNames(t, methods, map[string]string{
		"Run":     "Go",
		"Stream":  "Go stream",
		"Batch":   "Go batch",
		"Chain":   "Go chain",
		"Execute": "code mode, javascript on js",
		"AsTool":  "code mode as the tool of an agent",
		"Submit":  "Go, later",
		"Resume":  "Go, a call that is resumed",
	}, strings.Fields("ExecuteCall ToolFor Job Jobs DescribeFor ExplainFor"))
}

func takesCall(t reflect.Type) bool {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	return slices.Contains([]reflect.Type{
		reflect.TypeFor[toolroom.Call](), reflect.TypeFor[toolroom.Result](), reflect.TypeFor[toolroom.ChainResult](), reflect.TypeFor[run.Job](),
	}, t)
}

// everyEngineIsAHandler checks that each engine has a row. It uses the room of another
// test, because a room compiles for some seconds to probe its engines.
func everyEngineIsAHandler(t *testing.T, f *fixture) {
	t.Helper()
	var engines []string
	rows := map[string]string{}
	for _, e := range f.room.Engines(t.Context()) {
		engines = append(engines, e.Name)
		c := config.Default()
		c.Policy.Rules = []string{`@engine("` + e.Name + `") permit(principal, action, resource);`}
		if _, _, err := app.Policy(c, ""); err != nil {
			t.Errorf("no rule can name %s: %v", e.Name, err)
		}
	}
	for _, d := range codeHandlers() {
		if _, engine, ok := strings.Cut(d.name, " on "); ok && strings.HasPrefix(d.name, "code mode, ") {
			rows[engine] = d.name
		}
	}
	// The suite of sandboxes tests these drivers like the process sandbox here: their
	// calls come over the same bridge (sandboxtest, "make runtimes"). Calls of Pyodide
	// come like those of the other engines (enginetest, "make pyodide").
	checkNames(t, engines, rows, strings.Fields("microvm firecracker gvisor docker containerd kata kubernetes pyodide"))
}

// checkNames checks that each name in have is either in rows, with an existing handler, or in
// others, and that each name in rows is in have.
func checkNames(t *testing.T, have []string, rows map[string]string, others []string) {
	t.Helper()
	for _, name := range have {
		row, isHandler := rows[name]
		switch {
		case !isHandler && !slices.Contains(others, name):
			t.Errorf("%s is new: add a row to handlers_test.go and its name here, or list it here as one that calls no tool", name)
		case isHandler && !slices.ContainsFunc(handlers(), func(d handler) bool { return d.name == row }):
			t.Errorf("%s has no row %q", name, row)
		}
	}
	for name := range rows {
		if !slices.Contains(have, name) {
			t.Errorf("%s is listed but does not exist", name)
		}
	}
}
