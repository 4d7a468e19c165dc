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
	"github.com/toolroom/toolroom/internal/config"
	"github.com/toolroom/toolroom/internal/run"
	"github.com/toolroom/toolroom/room"
)

// What is new in the product has to be named here: with the door that tries it,
// or as something that calls no tool. So nobody adds a door without its row.

func TestEveryOperationOfHTTPIsADoorOrCallsNothing(t *testing.T) {
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
	named(t, operations, map[string]string{
		"call-tool": "HTTP, the tool in the path",
		"call":      "HTTP, the tool in the body",
		"batch":     "HTTP batch",
		"chain":     "HTTP chain",
		"execute":   "code mode over HTTP",
	}, strings.Fields(`list-approvals follow-approvals list-approval-rules remove-approval-rule get-approval answer-approval
		list-artifacts upload-artifact delete-artifact get-artifact read-artifact list-calls get-call cancel-call follow-call follow-calls
		list-elevations elevate end-elevation explain-policy list-runs search-tools list-sessions import-session delete-session export-session
		fork-session list-sources stubs list-tools describe-tool`))
}

func TestEveryCommandIsADoorOrCallsNothing(t *testing.T) {
	t.Parallel()
	f := serve(t)
	_, help := f.command(t, "--help")
	_, list, _ := strings.Cut(help, "Use tools:")
	list, _, _ = strings.Cut(list, "\nFlags:")
	var commands []string
	for _, m := range regexp.MustCompile(`(?m)^  ([a-z]+) `).FindAllStringSubmatch(list, -1) {
		commands = append(commands, m[1])
	}
	named(t, commands, map[string]string{
		"call":  "command line",
		"chain": "command line, chain",
		"exec":  "code mode on the command line",
		"runs":  "Go, a call that is carried on", // wait goes on with a run
		"serve": "MCP of 2025-11-25",             // and on stdio the same server
	}, strings.Fields(`approve artifact audit bench calls completion config describe doctor gc help image import init policy
		runner search secret session setup sources stubs temporal token tools version`))
}

func TestEveryMethodOfARoomThatTakesACallIsADoor(t *testing.T) {
	t.Parallel()
	var methods []string
	r := reflect.TypeFor[*room.Room]()
	for i := range r.NumMethod() {
		m := r.Method(i)
		var types []reflect.Type
		for j := range m.Type.NumIn() {
			types = append(types, m.Type.In(j))
		}
		for j := range m.Type.NumOut() {
			types = append(types, m.Type.Out(j))
		}
		if slices.ContainsFunc(types, carriesACall) {
			methods = append(methods, m.Name)
		}
	}
	named(t, methods, map[string]string{
		"Run":     "Go",
		"Stream":  "Go stream",
		"Batch":   "Go batch",
		"Chain":   "Go chain",
		"Execute": "code mode, javascript on js",
		"AsTool":  "code mode as the tool of an agent",
		"Submit":  "Go, later",
		"Resume":  "Go, a call that is carried on",
	}, strings.Fields("ExecuteCall ToolOf Job Jobs"))
}

func carriesACall(t reflect.Type) bool {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	return slices.Contains([]reflect.Type{
		reflect.TypeFor[toolroom.Call](), reflect.TypeFor[toolroom.Result](), reflect.TypeFor[run.ChainResult](), reflect.TypeFor[run.Job](),
	}, t)
}

// everyEngineIsADoor is asked of the room that the doors are tried on: to probe
// an engine may take it some seconds of compiling.
func everyEngineIsADoor(t *testing.T, f *fixture) {
	t.Helper()
	var engines []string
	rows := map[string]string{}
	for _, e := range f.room.Engines(t.Context()) {
		engines = append(engines, e.Name)
		c := config.Default()
		c.Policy.Rules = []string{`@engine("` + e.Name + `") permit(principal, action, resource);`}
		if _, _, err := room.Policy(c, ""); err != nil {
			t.Errorf("no rule can name %s: %v", e.Name, err)
		}
	}
	for _, d := range codeDoors() {
		if _, engine, ok := strings.Cut(d.name, " on "); ok && strings.HasPrefix(d.name, "code mode, ") {
			rows[engine] = d.name
		}
	}
	// The contract of sandboxes holds these to what the process sandbox is held to
	// here: their calls come over the same bridge (sandboxtest, "make runtimes").
	// Pyodide's come as those of the other engines do (enginetest, "make pyodide").
	named(t, engines, rows, strings.Fields("microvm firecracker gvisor docker containerd kata kubernetes pyodide"))
}

// named holds what the product has to what is named: each with its door, which
// must be there, or as something else. What is named must be there too.
func named(t *testing.T, have []string, rows map[string]string, others []string) {
	t.Helper()
	for _, name := range have {
		row, isDoor := rows[name]
		switch {
		case !isDoor && !slices.Contains(others, name):
			t.Errorf("%s is new: give it a row in doors_test.go and name that here, or say here that it calls no tool", name)
		case isDoor && !slices.ContainsFunc(doors(), func(d door) bool { return d.name == row }):
			t.Errorf("%s has no row %q", name, row)
		}
	}
	for name := range rows {
		if !slices.Contains(have, name) {
			t.Errorf("%s is named and is not there", name)
		}
	}
}
