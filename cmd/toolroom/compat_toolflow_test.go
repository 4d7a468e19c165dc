package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	httpserver "github.com/toolroom/toolroom/internal/server"
	"github.com/toolroom/toolroom/internal/server/auth"
)

// flow plays the requests of ToolFlow's page and bridge.
type flow struct {
	t    *testing.T
	base string
	w    workshop
}

func newFlow(t *testing.T, config string) flow {
	t.Helper()
	w := newWorkshop(t, config)
	ready, ended := make(chan net.Addr, 1), make(chan error, 1)
	go func() {
		ended <- httpserver.Serve(t.Context(), w.App, httpserver.Options{Listen: "127.0.0.1:0", Version: "test", Started: func(a net.Addr) { ready <- a }})
	}()
	t.Cleanup(func() { <-ended }) // after the test's context
	select {
	case at := <-ready:
		return flow{t, "http://" + at.String(), w}
	case err := <-ended:
		ended <- err
		t.Fatal(err)
		return flow{}
	}
}

// request makes a request and returns its answer, which must have the status.
func (f flow) request(status int, method, path, body string) map[string]any {
	f.t.Helper()
	req, err := http.NewRequestWithContext(f.t.Context(), method, f.base+"/compat/toolflow"+path, strings.NewReader(body))
	if err != nil {
		f.t.Fatal(err)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		f.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		f.t.Fatal(err)
	}
	var out map[string]any
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if resp.StatusCode != status || d.Decode(&out) != nil {
		f.t.Fatalf("%s %s %s: %s %s, want %d", method, path, body, resp.Status, text, status)
	}
	return out
}

// want asks and compares the answer's members at the given places, such as items.0.id.
func (f flow) want(status int, method, path, body string, want map[string]any) map[string]any {
	f.t.Helper()
	out := f.request(status, method, path, body)
	for at, value := range want {
		if got := member(out, at); fmt.Sprint(got) != fmt.Sprint(value) {
			f.t.Errorf("%s %s: %s is %v, want %v, in %v", method, path, at, got, value, out)
		}
	}
	return out
}

func member(v any, path string) any {
	for part := range strings.SplitSeq(path, ".") {
		switch at := v.(type) {
		case map[string]any:
			v = at[part]
		case []any:
			var i int
			if _, err := fmt.Sscan(part, &i); err != nil || i >= len(at) {
				return nil
			}
			v = at[i]
		default:
			return nil
		}
	}
	return v
}

// waitForEnd waits for the end of an execution, as the page does.
func (f flow) waitForEnd(id string) map[string]any {
	f.t.Helper()
	for {
		out := f.request(200, "GET", "/api/admin/executions/"+id, "")
		if s := out["status"]; s != "pending" && s != "running" {
			return out
		}
		time.Sleep(20 * time.Millisecond) // the page polls, too
	}
}

const flowCode = `{"code": "def main(arguments, context):\n    message = arguments.get(\"message\", \"hello\")\n    print(\"said\", message)\n    return {\"echo\": message, \"executor\": context.get(\"executor\")}\n", "entry_point": "main", "message": "first", "schema": {"type": "object", "properties": {"message": {"type": "string"}}}, "config": {}}`

func TestThePageAndBridgeOfToolFlowWork(t *testing.T) {
	t.Parallel()
	f := newFlow(t, "server: {toolflow: true}\n")
	rpc := func(body string) string { return `{"jsonrpc": "2.0", "id": 1, ` + body + `}` }
	admin := "/api/admin/tools"

	// A tool is created, described and gets a version.
	f.want(200, "GET", admin, "", map[string]any{"items": []any{}})
	f.want(400, "POST", admin, `{"name": "x"}`, map[string]any{"error": "id and name are required"})
	f.want(400, "POST", admin, `{`, map[string]any{"error": "Invalid JSON"})
	f.want(201, "POST", admin, `{"id": "talk", "name": "Talk", "description": "Says it.", "operator": "frontend-admin"}`, map[string]any{"id": "talk", "name": "Talk"})
	f.want(409, "POST", admin, `{"id": "talk", "name": "Talk again"}`, map[string]any{"error": "tool already exists"})
	f.want(200, "PATCH", admin+"/talk", `{"name": "Talk", "description": "Says it again.", "operator": "frontend-admin"}`, map[string]any{"id": "talk", "description": "Says it again."})
	f.want(404, "GET", admin+"/nope", "", map[string]any{"error": "tool not found"})
	f.want(200, "GET", admin+"/talk", "", map[string]any{"id": "talk", "name": "Talk", "description": "Says it again."})
	f.want(200, "GET", admin+"/talk/versions", "", map[string]any{"items": []any{}})
	f.want(400, "POST", admin+"/talk/versions", `{}`, map[string]any{"error": "code is required"})
	if got := f.request(400, "POST", admin+"/talk/versions", `{"code": "def main(:\n"}`)["error"]; !strings.Contains(fmt.Sprint(got), "SyntaxError") {
		t.Errorf("code that does not parse: %v", got)
	}
	f.want(400, "POST", admin+"/talk/versions", `{"code": "import json\ndef other(a):\n    return 1\n", "entry_point": "run"}`, map[string]any{"error": "the code does not define its entry point run; it defines other: correct entry_point, or define that function"})
	f.want(201, "POST", admin+"/talk/versions", flowCode, map[string]any{"version": 1, "status": "draft", "entry_point": "main", "message": "first", "schema.type": "object"})
	v := f.want(200, "GET", admin+"/talk/versions", "", map[string]any{"items.0.version": 1, "items.1": nil})
	if code := member(v, "items.0.code"); !strings.HasPrefix(fmt.Sprint(code), "def main(arguments, context):") {
		t.Errorf("the code is %v", code)
	}

	// It is tried.
	run := f.want(201, "POST", admin+"/talk/run-test", `{"arguments": {"message": "hi"}, "version": 1}`, map[string]any{"tool_id": "talk", "version": 1, "status": "pending", "target_env": "test"})
	ended := f.waitForEnd(fmt.Sprint(run["execution_id"]))
	for at, want := range map[string]any{"status": "success", "output.echo": "hi", "output.executor": "toolroom", "input.message": "hi", "target_env": "test", "error": nil, "logs.0.message": "said hi"} {
		if got := member(ended, at); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("the execution's %s is %v, want %v, in %v", at, got, want, ended)
		}
	}
	f.want(400, "POST", admin+"/talk/run-test", `{"arguments": [1]}`, map[string]any{"error": "arguments must be object"})
	f.want(404, "POST", admin+"/talk/run-test", `{"version": 9}`, map[string]any{"error": "version not found"})

	// The bridge does not see it before it is released.
	f.want(200, "POST", "/mcp/", rpc(`"method": "initialize", "params": {}`), map[string]any{"id": 1, "result.protocolVersion": "2024-11-05", "result.serverInfo.name": "ToolFlow MCP Server"})
	f.want(200, "POST", "/mcp/", `{"jsonrpc": "2.0", "method": "notifications/initialized"}`, map[string]any{"jsonrpc": nil})
	f.want(200, "POST", "/mcp/", rpc(`"method": "ping"`), map[string]any{"result": map[string]any{}})
	f.want(200, "POST", "/mcp/", rpc(`"method": "tools/list"`), map[string]any{"result.tools": []any{}})
	f.want(200, "POST", "/mcp/", rpc(`"method": "tools/call", "params": {"name": "talk", "arguments": {}}`), map[string]any{"error.code": -32602})
	f.want(400, "POST", admin+"/talk/release", `{"environment": "moon", "version": 1}`, map[string]any{"error": "environment must be prod or test"})
	f.want(400, "POST", admin+"/talk/release", `{"environment": "prod", "version": "1"}`, map[string]any{"error": "version must be int"})
	f.want(404, "POST", admin+"/talk/release", `{"environment": "prod", "version": 7}`, map[string]any{"error": "version not found"})
	f.want(200, "POST", admin+"/talk/release", `{"environment": "prod", "version": 1}`, map[string]any{"tool_id": "talk", "environment": "prod", "version": 1})
	f.want(200, "GET", admin, "", map[string]any{"items.0.id": "talk", "items.0.name": "Talk", "items.0.prod_version": 1, "items.0.test_version": nil})
	f.want(200, "POST", "/mcp/", rpc(`"method": "tools/list"`), map[string]any{"result.tools.0.name": "talk", "result.tools.0.description": "Says it again.", "result.tools.0.inputSchema.type": "object"})
	f.want(200, "POST", "/mcp/", rpc(`"method": "tools/call", "params": {"name": "talk", "arguments": {"message": "you"}}`), map[string]any{
		"result.isError": false, "result.content.0.text": `{"echo":"you","executor":"toolroom"}`, "result.content.1.text": "\n[Logs]:\nsaid you",
	})
	f.want(200, "POST", "/mcp/", rpc(`"method": "tools/call", "params": {"name": "talk", "arguments": {"message": 5}}`), map[string]any{"result.isError": true})
	f.want(200, "POST", "/mcp/", rpc(`"method": "tools/call", "params": {"name": "nope"}`), map[string]any{"error.code": -32601, "error.message": "Tool not found"})
	f.want(200, "POST", "/mcp/", rpc(`"method": "more"`), map[string]any{"error.code": -32601})
	f.want(200, "POST", "/mcp/", `{`, map[string]any{"error.code": -32700, "id": nil})
	f.want(405, "GET", "/mcp/", "", map[string]any{"error.code": -32600})

	// A scalar is kept, a second version is released, and taken back.
	f.want(201, "POST", admin+"/talk/versions", `{"code": "def main(arguments):\n    return 42\n", "message": "scalar"}`, map[string]any{"version": 2})
	f.want(200, "PATCH", admin+"/talk/versions/2/status", `{"status": "active"}`, map[string]any{"version": 2, "status": "active"})
	f.want(200, "POST", "/mcp/", rpc(`"method": "tools/call", "params": {"name": "talk"}`), map[string]any{"result.content.0.text": "42"})
	f.want(200, "POST", admin+"/talk/rollback", `{"environment": "prod", "to_version": 1}`, map[string]any{"rolled_back_environment": "prod", "current_version": 1})
	f.want(200, "GET", admin+"/talk/versions", "", map[string]any{"items.0.status": "deprecated", "items.1.status": "active"})
	f.want(404, "POST", admin+"/talk/rollback", `{"to_version": 5}`, map[string]any{"error": "target version not found"})
	f.want(400, "PATCH", admin+"/talk/versions/2/status", `{"status": "old"}`, map[string]any{"error": "status must be draft, active, or deprecated"})

	// Executions, metrics, settings; executors have nothing to do.
	f.want(200, "GET", "/api/admin/executions?page=1&page_size=2&status=success", "", map[string]any{"pagination.total": 3, "pagination.page_size": 2, "items.0.tool_id": "talk", "items.2": nil})
	f.want(200, "GET", "/api/admin/executions?page=2&page_size=2&status=success&target_env=prod&tool_id=talk&executor=toolroom", "", map[string]any{"pagination.total": 2, "items": []any{}})
	f.want(200, "GET", "/api/admin/executions?executor=node-1", "", map[string]any{"pagination.total": 0})
	f.want(404, "GET", "/api/admin/executions/call_x", "", map[string]any{"error": "execution not found"})
	f.want(200, "GET", "/api/admin/metrics/overview", "", map[string]any{"counters.success_24h": 3, "counters.failed_24h": 1, "counters.pending_now": 0, "counters.success_rate_24h": 75})
	series := f.want(200, "GET", "/api/admin/metrics/timeseries?window_minutes=1", "", map[string]any{"window.bucket": "minute"})
	if points, _ := series["points"].([]any); len(points) == 0 {
		t.Errorf("no points in %v", series)
	}
	settings := f.want(200, "GET", "/api/admin/config", "", map[string]any{
		"config.tool_version.active_conflict_policy": "deprecated",
		// The page has a form of these, and saves it only if no field is empty.
		"config.server.url": "http://127.0.0.1:7070/compat/toolflow", "config.sandbox.allowed_modules.0": "*",
	})
	same, err := json.Marshal(settings["config"])
	if err != nil {
		t.Fatal(err)
	}
	f.want(200, "PUT", "/api/admin/config", string(same), map[string]any{"config.tool_version.active_conflict_policy": "deprecated"})
	f.want(400, "PUT", "/api/admin/config", `{"tool_version": {"active_conflict_policy": "gone"}}`, map[string]any{"error": "active_conflict_policy must be deprecated or draft"})
	f.want(409, "PUT", "/api/admin/config", strings.Replace(string(same), "deprecated", "draft", 1), map[string]any{"error": "set releases.conflict to draft in toolroom.yaml"})
	f.want(200, "POST", "/api/tasks/pop", `{"executor_id": "node-1", "executor_env": "prod"}`, map[string]any{"task": nil})
	f.want(404, "POST", "/api/tasks/0f0f/report", `{"status": "DONE"}`, map[string]any{"error": "Task not found"})
}

func TestAFunctionThatIsEditedInThePageKeepsItsParameters(t *testing.T) {
	t.Parallel()
	f := newFlow(t, "server: {toolflow: true}\n")
	f.w.serve("twice.py", "def twice(x: int) -> int:\n    return x * 2\n\ndef other() -> int:\n    return 1\n")
	const edit = `{"code": "def twice(x: int) -> int:\n    return x * 4\n\ndef other() -> int:\n    return 1\n", "entry_point": "twice", "message": "four", "schema": {"type": "object"}, "config": {}}`
	f.want(201, "POST", "/api/admin/tools/twice/versions", edit, map[string]any{"version": 2, "entry_point": "twice", "schema.properties.x.type": "integer"})
	ran := f.request(201, "POST", "/api/admin/tools/twice/run-test", `{"arguments": {"x": 21}, "version": 2}`)
	if got := f.waitForEnd(ran["execution_id"].(string)); got["status"] != "success" || fmt.Sprint(got["output"]) != "84" {
		t.Errorf("%v", got)
	}
	f.want(400, "POST", "/api/admin/tools/twice/versions", `{"code": "def other() -> int:\n    return 1\n", "entry_point": "twice"}`, map[string]any{"error": "the code no longer has this tool"})
}

func TestTheRoutesOfToolFlowAreOffUnlessConfigured(t *testing.T) {
	t.Parallel()
	f := newFlow(t, "server: {}\n")
	resp, err := http.Get(f.base + "/compat/toolflow/api/admin/tools")
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusNotFound {
		t.Errorf("status %s", resp.Status)
	}
}

func TestToolFlowsListHidesWhatAPolicyDeniesInEveryEnvironment(t *testing.T) {
	t.Parallel()
	f := newFlow(t, "server: {toolflow: true}\ntools: {deny: [\"fn:hidden\"]}\n")
	for _, id := range []string{"hidden", "shown"} {
		f.want(201, "POST", "/api/admin/tools", `{"id": "`+id+`", "name": "`+id+`"}`, nil)
		f.want(201, "POST", "/api/admin/tools/"+id+"/versions", `{"code": "def main(arguments):\n    return 1\n"}`, nil)
		f.want(200, "POST", "/api/admin/tools/"+id+"/release", `{"environment": "test", "version": 1}`, nil)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, f.base+"/compat/toolflow/mcp", strings.NewReader(`{"jsonrpc": "2.0", "id": 1, "method": "tools/list"}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set(auth.EnvironmentHeader, "test")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if text, err := io.ReadAll(resp.Body); err != nil || strings.Contains(string(text), "hidden") || !strings.Contains(string(text), "shown") {
		t.Errorf("the list is %s, %v", text, err)
	}
}
