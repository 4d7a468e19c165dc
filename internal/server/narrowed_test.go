package server

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/toolroom/toolroom/internal/app"
	"github.com/toolroom/toolroom/internal/token"
)

// TestANarrowedTokenReachesNothingOfAWiderOne: a token that names the agent fast, of a person
// who has another token without an agent, tries to get at what that one has left.
func TestANarrowedTokenReachesNothingOfAWiderOne(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "toolroom.yaml")
	if err := os.WriteFile(file, []byte("server: {auth: {required: always}}\ntools: {confirm: [\"memory:forget\"]}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	r, err := app.Open(t.Context(), app.Options{Home: filepath.Join(dir, "home"), ConfigFile: file, Workspace: dir, Helper: self})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	at := served(t, r)
	bearer := func(o token.Options) string {
		text, _, err := token.Create(t.Context(), r.Parts().Tokens, o)
		if err != nil {
			t.Fatal(err)
		}
		return "Bearer " + text
	}
	wide, narrow := bearer(token.Options{Subject: "ann"}), bearer(token.Options{Subject: "ann", Agent: "fast"})
	send := func(who, method, path, body string, headers ...string) (int, string) {
		t.Helper()
		headers = append(headers, "Authorization", who, "Content-Type", "application/json", "Accept", "application/json")
		res, text := send(t, method, at+"/api/v1"+path, body, headers...)
		return res.StatusCode, text
	}
	call := func(who, tool, arguments string, headers ...string) (int, string) {
		t.Helper()
		return send(who, http.MethodPost, "/call", `{"tool":"`+tool+`","arguments":`+arguments+`}`, headers...)
	}
	is := func(what string, want, got int, text string) {
		t.Helper()
		if got != want {
			t.Errorf("%s: %d, want %d: %s", what, got, want, text)
		}
	}
	const secret = "opensesame"
	lacks := func(what, text string) {
		t.Helper()
		if strings.Contains(text, secret) {
			t.Errorf("%s tells it: %s", what, text)
		}
	}

	t.Run("artifacts", func(t *testing.T) {
		status, text := send(wide, http.MethodPost, "/artifacts?name=a.txt", secret)
		is("upload", http.StatusCreated, status, text)
		var a struct{ Handle string }
		if err := json.Unmarshal([]byte(text), &a); err != nil {
			t.Fatal(err)
		}
		for _, path := range []string{"", "/content", "/content?raw=true"} {
			status, text := send(narrow, http.MethodGet, "/artifacts/"+a.Handle+path, "")
			is("read "+path, http.StatusNotFound, status, text)
			lacks("read "+path, text)
		}
		status, text = send(narrow, http.MethodDelete, "/artifacts/"+a.Handle, "")
		is("delete", http.StatusNotFound, status, text)
		if _, text = send(narrow, http.MethodGet, "/artifacts", ""); strings.Contains(text, a.Handle) {
			t.Errorf("the list names it: %s", text)
		}
		status, text = send(narrow, http.MethodPost, "/artifacts?name=b.txt", "of the agent")
		is("upload", http.StatusCreated, status, text)
		if err := json.Unmarshal([]byte(text), &a); err != nil {
			t.Fatal(err)
		}
		status, text = send(wide, http.MethodGet, "/artifacts/"+a.Handle+"/content", "")
		is("the wide token reads what the narrow one made", http.StatusOK, status, text)
	})

	t.Run("memory", func(t *testing.T) {
		status, text := call(wide, "memory:write", `{"namespace":"n","content":"`+secret+`"}`)
		is("write", http.StatusOK, status, text)
		for tool, arguments := range map[string]string{"read": `{"namespace":"n"}`, "list": `{}`, "search": `{"query":"` + secret[:8] + `"}`} {
			_, text := call(narrow, "memory:"+tool, arguments)
			lacks(tool, text)
			if tool == "list" && strings.Contains(text, `"n"`) {
				t.Errorf("the list names it: %s", text)
			}
		}
		call(narrow, "memory:write", `{"namespace":"n","content":"planted"}`)
		if _, text = call(wide, "memory:read", `{"namespace":"n"}`); !strings.Contains(text, secret) || strings.Contains(text, "planted") {
			t.Errorf("the wide one's note is now %s", text)
		}
	})

	t.Run("code sessions", func(t *testing.T) {
		run := func(who, code string) string {
			_, text := call(who, "code:execute", `{"language":"javascript","session":"s","code":`+code+`}`)
			return text
		}
		if text := run(wide, `"globalThis.kept = \"`+secret+`\"; return 1"`); !strings.Contains(text, `"ok"`) {
			t.Fatal(text)
		}
		lacks("the same name", run(narrow, `"return globalThis.kept ?? \"nothing\""`))
		run(narrow, `"globalThis.kept = \"planted\"; return 1"`)
		if text := run(wide, `"return kept"`); !strings.Contains(text, secret) {
			t.Errorf("the wide one's session has %s", text)
		}
		status, text := send(wide, http.MethodPost, "/sessions/s/fork?to=mine", "")
		is("fork", http.StatusCreated, status, text)
		status, text = send(narrow, http.MethodGet, "/sessions/mine/export", "")
		is("export", http.StatusNotFound, status, text)
		status, text = send(narrow, http.MethodPost, "/sessions/mine/fork?to=theirs", "")
		is("fork", http.StatusNotFound, status, text)
		status, text = send(narrow, http.MethodDelete, "/sessions/mine", "")
		is("delete", http.StatusNotFound, status, text)
		if _, text := call(narrow, "sessions:list", `{}`); strings.Contains(text, "mine") {
			t.Errorf("sessions:list names it: %s", text)
		}
		if _, text := call(narrow, "sessions:delete", `{"id":"mine"}`); !strings.Contains(text, "not_found") {
			t.Errorf("sessions:delete: %s", text)
		}
	})

	t.Run("idempotency keys", func(t *testing.T) {
		status, text := call(wide, "memory:append", `{"namespace":"log","content":"entry"}`, "Idempotency-Key", "k")
		is("first", http.StatusOK, status, text)
		status, text = call(narrow, "memory:append", `{"namespace":"log","content":"entry"}`, "Idempotency-Key", "k")
		is("the narrow one repeats it", http.StatusConflict, status, text)
		status, text = call(wide, "memory:append", `{"namespace":"log","content":"entry"}`, "Idempotency-Key", "k")
		is("the wide one repeats it", http.StatusOK, status, text)
		if _, text = call(wide, "memory:read", `{"namespace":"log"}`); strings.Count(text, "entry") != 2 { // value and content
			t.Errorf("it was appended more than once: %s", text)
		}
	})

	t.Run("calls, runs and approvals", func(t *testing.T) {
		_, text := call(wide, "memory:search", `{"query":"`+secret+`"}`)
		var done struct {
			Call string `json:"call"`
		}
		if err := json.Unmarshal([]byte(text), &done); err != nil || done.Call == "" {
			t.Fatal(text, err)
		}
		status, queued := send(wide, http.MethodPost, "/call?async=true", `{"tool":"memory:forget","arguments":{"namespace":"`+secret+`"}}`)
		is("in the background", http.StatusAccepted, status, queued)
		var job struct {
			ID string `json:"id"`
		}
		if err := json.Unmarshal([]byte(queued), &job); err != nil || job.ID == "" {
			t.Fatal(queued, err)
		}
		for _, id := range []string{done.Call, job.ID} {
			for _, path := range []string{"", "/events"} {
				status, text := send(narrow, http.MethodGet, "/calls/"+id+path, "")
				is("read "+path, http.StatusNotFound, status, text)
			}
			status, text := send(narrow, http.MethodPost, "/calls/"+id+"/cancel", "")
			is("cancel", http.StatusNotFound, status, text)
			status, text = send(wide, http.MethodGet, "/calls/"+id, "")
			is("read by the wide one", http.StatusOK, status, text)
		}
		if _, text := send(narrow, http.MethodGet, "/metrics/timeseries", ""); strings.Contains(text, `"calls":1`) {
			t.Errorf("the statistics count its calls: %s", text)
		}
		for _, path := range []string{"/calls", "/calls?subject=ann", "/runs", "/approvals", "/approvals/rules"} {
			status, text := send(narrow, http.MethodGet, path, "")
			is(path, http.StatusOK, status, text)
			if lacks(path, text); strings.Contains(text, job.ID) || strings.Contains(text, done.Call) {
				t.Errorf("%s names it: %s", path, text)
			}
		}
	})

	t.Run("MCP sessions", func(t *testing.T) {
		mcp := func(who, session, body string) (*http.Response, string) {
			return sendTo(t, at+"/mcp", body, "Authorization", who, "Content-Type", "application/json", "Accept", "application/json, text/event-stream", "Mcp-Session-Id", session, "MCP-Protocol-Version", "2025-11-25")
		}
		res, text := mcp(wide, "", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}`)
		id := res.Header.Get("Mcp-Session-Id")
		if id == "" {
			t.Fatal(res.Status, text)
		}
		const list = `{"jsonrpc":"2.0","id":2,"method":"tools/list"}`
		if res, text := mcp(wide, id, list); res.StatusCode != http.StatusOK {
			t.Errorf("own session: %s %s", res.Status, text)
		}
		if res, text := mcp(narrow, id, list); res.StatusCode != http.StatusNotFound {
			t.Errorf("the session of the wide one: %s %s", res.Status, text)
		}
	})
}

// sendTo posts a body without the headers that have no value.
func sendTo(t *testing.T, url, body string, headers ...string) (*http.Response, string) {
	t.Helper()
	var set []string
	for i := 0; i < len(headers); i += 2 {
		if headers[i+1] != "" {
			set = append(set, headers[i], headers[i+1])
		}
	}
	return send(t, http.MethodPost, url, body, set...)
}
