//go:build integration

package integration

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestClientsOfEveryEraReachUpstreamsOfEveryEra puts clients that others wrote in
// front of Toolroom, and servers of either era that others wrote behind it.
func TestClientsOfEveryEraReachUpstreamsOfEveryEra(t *testing.T) {
	r := newRoom(t, nil)
	proxy := func(flags ...string) object {
		return object{"mcp": object{"url": r.listening("/mcp", func(port string) []string {
			args := append([]string{npmProgram(t, "mcp-proxy"), "--port", port, "--host", "127.0.0.1"}, flags...)
			return append(args, node(t), npmProgram(t, "mcp-server-memory"))
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

	// A client lists the tools, or calls one with an argument, and gives what it
	// printed.
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
				return toolNames(decode[object](r.t, r.do(node(r.t), script, endpoint, era).stdout))
			},
			func(r *room, tool, key, value string) string {
				return r.do(node(r.t), script, endpoint, era, tool, `{"`+key+`":"`+value+`"}`).stdout
			},
		}
	}
	mcporter := client{
		func(r *room) []string {
			out := r.do(node(r.t), npmProgram(t, "mcporter"), "list", endpoint, "--allow-http", "--json")
			return toolNames(decode[object](r.t, out.stdout))
		},
		func(r *room, tool, key, value string) string {
			return r.do(node(r.t), npmProgram(t, "mcporter"), "call", endpoint+"."+tool, key+"="+value, "--allow-http").stdout
		},
	}
	for name, c := range map[string]client{
		"Inspector, legacy":         overHTTP("legacy"),
		"Inspector, modern":         overHTTP("modern"),
		"Inspector, auto":           overHTTP("auto"),
		"TypeScript SDK v2, auto":   typescript("auto"),
		"TypeScript SDK v2, legacy": typescript("legacy"),
		"TypeScript SDK v2, modern": typescript("modern"),
		"mcporter":                  mcporter,
		"mcp-remote":                inspector(node(t), npmProgram(t, "mcp-remote"), endpoint, "--allow-http", "--protocol-era", "legacy"),
	} {
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
}
