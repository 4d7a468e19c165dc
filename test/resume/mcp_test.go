package resume

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// object is a JSON object.
type object = map[string]any

// requestMCP makes a request of MCP 2026-07-28, as a client that accepts tasks and answers no
// elicitations.
func (f *fixture) requestMCP(method, name string, params object) object {
	f.t.Helper()
	params["_meta"] = object{
		"io.modelcontextprotocol/protocolVersion":    "2026-07-28",
		"io.modelcontextprotocol/clientCapabilities": object{"extensions": object{"io.modelcontextprotocol/tasks": object{}}},
	}
	body, err := json.Marshal(object{"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
	if err != nil {
		f.t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(f.t.Context(), http.MethodPost, f.url+"/mcp", bytes.NewReader(body))
	if err != nil {
		f.t.Fatal(err)
	}
	for name, v := range map[string]string{
		"Content-Type": "application/json", "Accept": "application/json, text/event-stream",
		"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": method, "Mcp-Name": name,
	} {
		req.Header.Set(name, v)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		f.t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		f.t.Fatal(err)
	}
	if _, last, ok := bytes.Cut(text, []byte("data: ")); ok {
		text = last
	}
	var answer struct{ Result, Error object }
	if err := json.Unmarshal(text, &answer); err != nil || answer.Error != nil {
		f.t.Fatalf("%s: %s", method, text)
	}
	return answer.Result
}

func (f *fixture) tool(name string, arguments object) object {
	f.t.Helper()
	return f.requestMCP("tools/call", name, object{"name": name, "arguments": arguments})
}

func TestASuspendedProgramOverMCPIsATaskAndIsReadInTheNextServer(t *testing.T) {
	for _, p := range programs {
		t.Run(p.engine, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			f.requireEngine(p.engine)
			f.start()
			task := f.tool("execute_code", object{"language": p.language, "engine": p.engine, "code": p.code})
			id, _ := task["taskId"].(string)
			if task["resultType"] != "task" || id == "" {
				t.Fatalf("a program that waits is answered with %v", task)
			}
			question := f.pending()
			f.kill()
			f.start()
			now := func() object { return f.requestMCP("tasks/get", id, object{"taskId": id}) }
			if got := now(); got["status"] != "working" {
				t.Errorf("in the next server the task is %v", got)
			}
			waits, _ := f.tool("read_result", object{"handle": id})["structuredContent"].(object)
			delete(waits, "state") // it may still run for a moment before the approval
			if diff := cmp.Diff(object{"run": id, "tool": "code:execute", "approvals": []any{question}}, waits); diff != "" {
				t.Errorf("read_result of a run that waits (-want +got):\n%s", diff)
			}
			if _, errs, code := f.toolroom("approve", question); code != 0 {
				t.Fatal(errs)
			}
			f.until("the task is completed", func() bool { return now()["status"] == "completed" })
			want := []any{"pay tea #1", "ship tea #1"}
			done, _ := now()["result"].(object)
			for where, r := range map[string]object{"tasks/get": done, "read_result": f.tool("read_result", object{"handle": id})} {
				value, _ := r["structuredContent"].(object)
				if diff := cmp.Diff(want, value["value"]); diff != "" {
					t.Errorf("%s returns %v (-want +got):\n%s", where, r, diff)
				}
			}
			if counts := f.shop.counts(); counts["pay tea"] != 1 || counts["ship tea"] != 1 {
				t.Errorf("the tools did %v", counts)
			}
		})
	}
}
