//go:build integration

package integration

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestClientsOfEveryEraReachUpstreamsOfEveryEra tests Toolroom between third-party clients
// and third-party servers of both eras.
func TestClientsOfEveryEraReachUpstreamsOfEveryEra(t *testing.T) {
	r := newRoom(t, nil)
	proxy := func(flags ...string) object {
		return object{"mcp": object{"url": r.startListening("/mcp", func(port string) []string {
			args := append([]string{nodeProgram(t), npmProgram(t, "mcp-proxy"), "--port", port, "--host", "127.0.0.1"}, flags...)
			return append(args, nodeProgram(t), npmProgram(t, "mcp-server-memory"))
		})}}
	}
	r.configure(object{
		"everything": npmServer(t, "mcp-server-everything", "stdio"),
		"files":      r.filesystem(),
		"modern":     proxy(),
		"legacy":     proxy("--no-modern"),
	})
	names := []string{"code__execute", "read_result", "system__info"}
	for namespace, tools := range map[string][]string{
		"everything": everythingTools, "files": filesystemTools, "modern": memoryTools, "legacy": memoryTools,
	} {
		for _, tool := range tools {
			names = append(names, namespace+"__"+tool)
		}
	}
	slices.Sort(names)
	calls := []struct{ tool, key, value, answers string }{
		{"everything__echo", "message", "hi", "Echo: hi"},
		{"files__get_file_info", "path", r.files, "isDirectory"},
		{"modern__search_nodes", "query", "x", "entities"},
		{"legacy__search_nodes", "query", "x", "entities"},
	}
	s := r.serveListed()
	endpoint := s.url + "/mcp"

	// A client lists the tools, or calls one with an argument, and returns its output.
	type client struct {
		list func(r *room) []string
		call func(r *room, tool, key, value string) string
	}
	inspector := func(target ...string) client {
		return client{
			func(r *room) []string { return toolNames(r.inspector(append(target, "--method", "tools/list")...)) },
			func(r *room, tool, key, value string) string {
				return contentText(r.inspector(append(target, "--method", "tools/call", "--tool-name", tool, "--tool-arg", key+"="+value)...))
			},
		}
	}
	overHTTP := func(era string) client {
		return inspector("--server-url", endpoint, "--transport", "http", "--protocol-era", era)
	}
	typescript := func(era string) client {
		script := filepath.Join("..", "node", "client.mjs")
		script, err := filepath.Abs(script)
		if err != nil {
			t.Fatal(err)
		}
		return client{
			func(r *room) []string {
				return toolNames(decode[object](r.t, r.runProgram(nodeProgram(r.t), script, endpoint, era).stdout))
			},
			func(r *room, tool, key, value string) string {
				return r.runProgram(nodeProgram(r.t), script, endpoint, era, tool, `{"`+key+`":"`+value+`"}`).stdout
			},
		}
	}
	mcporter := client{
		func(r *room) []string {
			out := r.runProgram(nodeProgram(r.t), npmProgram(t, "mcporter"), "list", endpoint, "--allow-http", "--json")
			return toolNames(decode[object](r.t, out.stdout))
		},
		func(r *room, tool, key, value string) string {
			return r.runProgram(nodeProgram(r.t), npmProgram(t, "mcporter"), "call", endpoint+"."+tool, key+"="+value, "--allow-http").stdout
		},
	}
	// On stdio each client starts a server of its own.
	overStdio := func(era string) client {
		return inspector(binary(t), "serve", "--stdio", "--trust-config", "--protocol-era", era)
	}
	mcporterOnStdio := client{
		func(r *room) []string {
			out := r.runProgram(nodeProgram(r.t), npmProgram(r.t, "mcporter"), "list", "--stdio", binary(r.t)+" serve --stdio", "--name", "room", "--json")
			return toolNames(decode[object](r.t, out.stdout))
		},
		func(r *room, tool, key, value string) string {
			return r.runProgram(nodeProgram(r.t), npmProgram(r.t, "mcporter"), "call", "--stdio", binary(r.t)+" serve --stdio", "--name", "room", tool, key+"="+value).stdout
		},
	}
	clients := map[string]client{
		"Inspector, legacy":          overHTTP("legacy"),
		"Inspector, modern":          overHTTP("modern"),
		"Inspector, auto":            overHTTP("auto"),
		"TypeScript SDK v2, auto":    typescript("auto"),
		"TypeScript SDK v2, legacy":  typescript("legacy"),
		"TypeScript SDK v2, modern":  typescript("modern"),
		"mcporter":                   mcporter,
		"mcp-remote":                 inspector(nodeProgram(t), npmProgram(t, "mcp-remote"), endpoint, "--allow-http", "--protocol-era", "legacy"),
		"Inspector on stdio, legacy": overStdio("legacy"),
		"Inspector on stdio, modern": overStdio("modern"),
		"mcporter on stdio":          mcporterOnStdio,
	}
	for name, c := range clients {
		t.Run(name, func(t *testing.T) {
			r := r.in(t)
			if diff := cmp.Diff(names, c.list(r)); diff != "" {
				t.Errorf("tools (-want +got):\n%s", diff)
			}
			for _, call := range calls {
				if got := c.call(r, call.tool, call.key, call.value); !strings.Contains(got, call.answers) {
					t.Errorf("%s answered %q, want %q in it", call.tool, got, call.answers)
				}
			}
		})
	}
	t.Run("Gemini CLI", func(t *testing.T) { r.in(t).wantGeminiConnects(endpoint) })
	t.Logf("%d clients, %d tools and %d calls each; Gemini CLI lists", len(clients), len(names), len(calls))
}

// wantGeminiConnects runs the Gemini CLI, which lists its servers: Toolroom at an address and on
// stdio.
func (r *room) wantGeminiConnects(endpoint string) {
	r.t.Helper()
	settings := encode(r.t, object{"mcpServers": object{
		"http":  object{"httpUrl": endpoint},
		"stdio": object{"command": binary(r.t), "args": []string{"serve", "--stdio", "--trust-config"}},
	}})
	for name, text := range map[string]string{
		"settings.json":       settings,
		"trustedFolders.json": encode(r.t, object{r.dir: "TRUST_FOLDER"}),
	} {
		path := filepath.Join(r.dir, ".gemini", name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o600)); err != nil {
			r.t.Fatal(err)
		}
	}
	out := r.runProgram(nodeProgram(r.t), npmProgram(r.t, "gemini"), "mcp", "list")
	if n := strings.Count(out.stdout+out.stderr, "- Connected"); n != 2 {
		r.t.Errorf("%d of 2 servers are connected:\n%s%s", n, out.stdout, out.stderr)
	}
}
