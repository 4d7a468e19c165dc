package server

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/toolroom/toolroom/internal/app"
	"github.com/toolroom/toolroom/internal/token"
)

const setsConfig = `server: {auth: {required: always}}
sources:
  git: {cli: {command: git}}
sets:
  notes: {allow: ["memory:*"], deny: ["memory:forget"], expose: {mode: direct}}
  find:  {allow: ["memory:*"], expose: {mode: search, hidden: ["memory:forget"]}}
`

// setsServer serves setsConfig, and returns a function that makes tokens.
func setsServer(t *testing.T) (at string, bearer func(token.Options) string, r *app.App) {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "toolroom.yaml")
	if err := os.WriteFile(file, []byte(setsConfig), 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := app.Open(t.Context(), app.Options{Home: filepath.Join(dir, "home"), ConfigFile: file, Workspace: dir})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return served(t, r), func(o token.Options) string {
		text, _, err := token.Create(t.Context(), r.Parts().Tokens, o)
		if err != nil {
			t.Fatal(err)
		}
		return "Bearer " + text
	}, r
}

// mcpAsk sends one request of 2026-07-28, and returns the status and the body.
func mcpAsk(t *testing.T, url, who, method, name, params string) (int, string) {
	t.Helper()
	meta := `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}`
	if params != "" {
		meta = "," + meta
	}
	res, text := sendTo(t, url, `{"jsonrpc":"2.0","id":1,"method":"`+method+`","params":{`+params+meta+`}}`,
		"Authorization", who, "Content-Type", "application/json", "Accept", "application/json, text/event-stream",
		"MCP-Protocol-Version", "2026-07-28", "Mcp-Method", method, "Mcp-Name", name)
	_, data, streamed := strings.Cut(text, "data: ")
	if streamed {
		text, _, _ = strings.Cut(data, "\n")
	}
	return res.StatusCode, text
}

func listedNames(t *testing.T, url, who string) []string {
	t.Helper()
	status, text := mcpAsk(t, url, who, "tools/list", "", "")
	var answer struct {
		Result struct{ Tools []struct{ Name string } }
	}
	if err := json.Unmarshal([]byte(text), &answer); err != nil || status != http.StatusOK {
		t.Fatalf("%s: %d %s %v", url, status, text, err)
	}
	var names []string
	for _, tool := range answer.Result.Tools {
		names = append(names, tool.Name)
	}
	return names
}

func TestAToolSetIsAllThatItsClientsSeeAndCall(t *testing.T) {
	t.Parallel()
	at, bearer, _ := setsServer(t)
	free, bound := bearer(token.Options{Subject: "ann"}), bearer(token.Options{Subject: "ann", Set: "notes", Groups: []string{"operators"}})

	all := listedNames(t, at+"/mcp", free)
	if !slices.Contains(all, "search_tools") || slices.Contains(all, "memory__write") {
		t.Errorf("without a set: %v", all)
	}
	of := listedNames(t, at+"/mcp/p/notes", free)
	if !slices.Contains(of, "memory__write") || slices.Contains(of, "memory__forget") || slices.Contains(of, "search_tools") || strings.Contains(strings.Join(of, " "), "git__") {
		t.Errorf("set notes: %v", of)
	}
	if got := listedNames(t, at+"/mcp", bound); !slices.Equal(got, of) {
		t.Errorf("a token of the set sees %v at /mcp, want %v", got, of)
	}
	if got := listedNames(t, at+"/mcp/p/find", free); !slices.Contains(got, "search_tools") || slices.Contains(got, "memory__write") {
		t.Errorf("set find: %v", got)
	}
	_, text := mcpAsk(t, at+"/mcp/p/find", free, "tools/call", "search_tools", `"name":"search_tools","arguments":{"query":"forget a memory","limit":50}`)
	if !strings.Contains(text, "memory:write") || strings.Contains(text, "memory:forget") || strings.Contains(text, "git:") {
		t.Errorf("a search in the set find: %s", text)
	}
	if _, text = mcpAsk(t, at+"/mcp/p/notes", free, "tools/call", "git__log", `"name":"git__log","arguments":{}`); !strings.Contains(text, "sets.notes: its allow list does not have it") {
		t.Errorf("a call outside the set: %s", text)
	}
	if _, text = mcpAsk(t, at+"/mcp/p/notes", free, "tools/call", "search_tools", `"name":"search_tools","arguments":{"query":"x"}`); !strings.Contains(text, "error") {
		t.Errorf("a search tool that the set does not list: %s", text)
	}

	header := []string{"Authorization", bound, "Content-Type", "application/json"}
	res, text := send(t, http.MethodPost, at+"/api/v1/call", `{"tool":"git:log","arguments":{}}`, header...)
	if res.StatusCode != http.StatusForbidden {
		t.Errorf("the API calls it for a token of the set: %d %s", res.StatusCode, text)
	}
	if res, text = send(t, http.MethodGet, at+"/api/v1/sources", "", header...); res.StatusCode != http.StatusForbidden {
		t.Errorf("a token of a set is an operator: %d %s", res.StatusCode, text)
	}
}

func TestATokenOfAToolSetReachesNoOther(t *testing.T) {
	t.Parallel()
	at, bearer, r := setsServer(t)
	free, bound, gone := bearer(token.Options{Subject: "ann"}), bearer(token.Options{Subject: "ann", Set: "notes"}), bearer(token.Options{Subject: "ann", Set: "gone"})
	for _, c := range []struct {
		path, who string
		status    int
		says      string
	}{
		{"/mcp/p/notes", bound, 200, "memory__write"},
		{"/mcp/p/find", bound, 403, "bound to the tool set notes"},
		{"/mcp/p/none", bound, 403, "bound to the tool set notes"},
		{"/mcp/p/none", free, 404, "find, notes"},
		{"/mcp/p/gone", gone, 404, "there is no tool set"},
		{"/mcp/p/notes/x", free, 404, ""},
	} {
		status, text := mcpAsk(t, at+c.path, c.who, "tools/list", "", "")
		if status != c.status || !strings.Contains(text, c.says) {
			t.Errorf("%s: %d %s, want %d with %q", c.path, status, text, c.status, c.says)
		}
	}
	if names := listedNames(t, at+"/mcp", gone); !slices.Equal(names, []string{"read_result"}) {
		t.Errorf("a token of a set that the config no longer has sees %v", names)
	}
	if err := r.CheckSet("none"); err == nil || r.CheckSet("notes") != nil || r.CheckSet("") != nil {
		t.Errorf("CheckSet: %v", err)
	}
}
