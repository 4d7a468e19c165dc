//go:build integration

package integration

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// TestGitHubsDocumentBehindMCP adds GitHub's whole document on a home as "toolroom init"
// makes it. A client sees a handful of tools, finds the right one of 1,223, and gets an
// answer that lacks members which the document requires, with a warning.
func TestGitHubsDocumentBehindMCP(t *testing.T) {
	t.Parallel()
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if req.Method != http.MethodPost || req.URL.Path != "/repos/ada/engine/issues" {
			http.NotFound(w, req)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusCreated)
		w.Write([]byte(`{"number": 7, "title": "It stops"}`))
	}))
	t.Cleanup(service.Close)
	r := bareRoom(t)
	r.toolroom(0, "init")
	document := npmFile(t, "@octokit", "openapi", "generated", "api.github.com.json")
	added := r.toolroom(0, "sources", "add", "github", "--openapi", document, "--base-url", service.URL)
	for _, want := range []string{"1223 tools", "MCP clients see 4 tools", "mode search"} {
		if !strings.Contains(added.stdout+added.stderr, want) {
			t.Errorf("sources add does not say %q:\n%s%s", want, added.stdout, added.stderr)
		}
	}
	for _, args := range [][]string{{"sources", "test", "github"}, {"sources", "review"}, {"doctor"}} {
		if out := r.runProgram(binary(t), args...); strings.Contains(out.stdout+out.stderr, "suspicious") {
			t.Errorf("a false alarm of %q:\n%s%s", args, out.stdout, out.stderr)
		}
	}

	s := r.serveAt("127.0.0.1:0")
	for era, version := range eras {
		t.Run(era, func(t *testing.T) {
			session := connect(t, s, version, nil)
			tools, err := session.ListTools(t.Context(), nil)
			if err != nil || len(tools.Tools) != 4 {
				t.Fatalf("the client sees %d tools (%v), want 4", len(tools.Tools), err)
			}
			call := func(name string, args object) *mcp.CallToolResult {
				t.Helper()
				result, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: name, Arguments: args})
				if err != nil || result.IsError {
					t.Fatalf("%s: %v %s", name, err, encode(t, result))
				}
				return result
			}
			var hits []struct{ ID string }
			eventually(t, "the tools of GitHub are listed", func() bool {
				found := call("search_tools", object{"query": "create an issue in a repository"})
				hits = decode[struct{ Hits []struct{ ID string } }](t, encode(t, found.StructuredContent)).Hits
				return len(hits) > 0
			})
			if hits[0].ID != "github:issues_create" {
				t.Fatalf("the search found %v first", hits)
			}
			result := call("call_tool", object{"tool": hits[0].ID, "arguments": object{"owner": "ada", "repo": "engine", "title": "It stops"}})
			text := encode(t, result)
			for _, want := range []string{"It stops", "output schema"} {
				if !strings.Contains(text, want) {
					t.Errorf("the result does not say %q: %s", want, text)
				}
			}
		})
	}
	if got := len(r.receipts("github:issues_create")); got != len(eras) {
		t.Errorf("there are %d receipts, want %d", got, len(eras))
	}
}
