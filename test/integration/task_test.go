//go:build integration

package integration

import (
	"bufio"
	"io"
	"net/http"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// startFixtures starts the server with the fixtures of the conformance suite.
func (r *room) startFixtures(address string) *exec.Cmd {
	r.t.Helper()
	cmd := r.command(r.t.Context(), installedFile(r.t, "run: make build", "bin", "conformance"), "-home", r.dir, "-listen", address)
	out, err := cmd.StdoutPipe()
	if err != nil {
		r.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		r.t.Fatalf("the server did not start: %v", err)
	}
	return cmd
}

// requestTask makes a request of 2026-07-28 as a client that supports tasks.
func requestTask(t *testing.T, address, method, name, params string) object {
	t.Helper()
	body := `{"jsonrpc":"2.0","id":1,"method":"` + method + `","params":{` + params + `,"_meta":{
		"io.modelcontextprotocol/protocolVersion":"2026-07-28",
		"io.modelcontextprotocol/clientCapabilities":{"elicitation":{},"extensions":{"io.modelcontextprotocol/tasks":{}}}}}}`
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+address+"/mcp", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{
		"Content-Type": "application/json", "Accept": "application/json, text/event-stream",
		"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": method, "Mcp-Name": name,
	} {
		req.Header.Set(name, value)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	text := string(raw)
	if _, data, ok := strings.Cut(text, "data: "); ok {
		text = data
	}
	return decode[struct{ Result object }](t, text).Result
}

func TestATaskSurvivesTheRestartOfItsServer(t *testing.T) {
	t.Parallel()
	for name, signal := range map[string]syscall.Signal{"asked to end": syscall.SIGTERM, "killed": syscall.SIGKILL} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := bareRoom(t)
			address := freeAddress(t)
			first := r.startFixtures(address)
			created := requestTask(t, address, "tools/call", "confirm_delete", `"name":"confirm_delete","arguments":{"filename":"x"}`)
			id, _ := created["taskId"].(string)
			if id == "" {
				t.Fatalf("the call became no task: %v", created)
			}
			becomes := func(status string) object {
				t.Helper()
				var task object
				eventually(t, "the task is "+status, func() bool {
					task = requestTask(t, address, "tasks/get", id, `"taskId":"`+id+`"`)
					return task["status"] == status
				})
				return task
			}
			becomes("input_required")
			if err := first.Process.Signal(signal); err != nil {
				t.Fatal(err)
			}
			ended := make(chan struct{})
			go func() { defer close(ended); _ = first.Wait() }()
			select {
			case <-ended:
			case <-time.After(waitTimeout):
				t.Fatal("the server did not end")
			}
			r.startFixtures(address)
			becomes("input_required")
			requestTask(t, address, "tasks/update", id, `"taskId":"`+id+`","inputResponses":{"confirm":{"action":"accept","content":{"confirm":true}}}`)
			if result, _ := becomes("completed")["result"].(object); !strings.Contains(contentText(result), `"confirm":true`) {
				t.Errorf("the task ended with %v", result)
			}
		})
	}
}
