//go:build integration

package integration

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The tools that each server lists to a client that supports elicitation and sampling but
// not roots.
var (
	everythingTools = []string{
		"echo", "get-annotated-message", "get-env", "get-resource-links", "get-resource-reference", "get-structured-content",
		"get-sum", "get-tiny-image", "gzip-file-as-resource", "simulate-research-query", "toggle-simulated-logging",
		"toggle-subscriber-updates", "trigger-elicitation-request", "trigger-long-running-operation",
		"trigger-sampling-request", "trigger-url-elicitation",
	}
	filesystemTools = []string{
		"create_directory", "directory_tree", "edit_file", "get_file_info", "list_allowed_directories", "list_directory",
		"list_directory_with_sizes", "move_file", "read_file", "read_media_file", "read_multiple_files", "read_text_file",
		"search_files", "write_file",
	}
	memoryTools = []string{
		"add_observations", "create_entities", "create_relations", "delete_entities", "delete_observations",
		"delete_relations", "open_nodes", "read_graph", "search_nodes",
	}
)

// TestUpstreamsOfEveryEra lists and calls the tools of third-party servers, of both eras and
// over every transport.
func TestUpstreamsOfEveryEra(t *testing.T) {
	r := newRoom(t, nil)
	proxy := func(flags ...string) string {
		return r.startListening("/mcp", func(port string) []string {
			args := append([]string{nodeProgram(t), npmProgram(t, "mcp-proxy"), "--port", port, "--host", "127.0.0.1"}, flags...)
			return append(args, nodeProgram(t), npmProgram(t, "mcp-server-memory"))
		})
	}
	everything := func(kind, path string) string {
		return r.startListening(path, func(string) []string { return []string{nodeProgram(t), npmProgram(t, "mcp-server-everything"), kind} })
	}
	fast := func(kind, path string) string {
		return r.startListening(path, func(string) []string { return fastMCP(t, kind) })
	}
	browserOverHTTP := r.startListening("/mcp", func(port string) []string {
		return r.playwrightCommand("--port", port, "--host", "127.0.0.1", "--allowed-hosts", "*")
	})
	typescript := []string{nodeProgram(t), nodeFile(t, "server.mjs")}
	devtools := npmServer(t, "chrome-devtools-mcp", "--headless", "--isolated", "--executablePath", chromiumProgram(t), "--chromeArg=--no-sandbox")
	page := r.startPage("A page of ours")
	url := func(u string) object { return object{"mcp": object{"url": u}} }
	upstreams := []struct {
		name    string
		source  object
		version string
		tools   []string
		call    []string
		prints  string
	}{
		{"everything-stdio", npmServer(t, "mcp-server-everything", "stdio"), "2025-11-25", everythingTools, []string{"echo", "message=hi"}, "Echo: hi"},
		{"everything-http", url(everything("streamableHttp", "/mcp")), "2025-11-25", everythingTools, []string{"get-sum", "a=3", "b=4"}, "is 7"},
		{"everything-sse", url(everything("sse", "/sse")), "2025-11-25", everythingTools, []string{"echo", "message=hi"}, "Echo: hi"},
		{"filesystem", r.filesystem(), "2025-11-25", filesystemTools, []string{"list_allowed_directories"}, r.files},
		{"memo", npmServer(t, "mcp-server-memory"), "2025-11-25", memoryTools, []string{"read_graph"}, "entities"},
		{"memory-modern", url(proxy()), "2026-07-28", memoryTools, []string{"read_graph"}, "entities"},
		{"memory-legacy", url(proxy("--no-modern")), "2025-11-25", memoryTools, []string{"read_graph"}, "entities"},
		{"thinking", npmServer(t, "mcp-server-sequential-thinking"), "2025-11-25", []string{"sequentialthinking"}, []string{"sequentialthinking", "thought=x", "nextThoughtNeeded=false", "thoughtNumber=1", "totalThoughts=1"}, "thoughtNumber"},
		{"playwright", stdioSource(r.playwrightCommand()), "2025-11-25", playwrightTools, []string{"browser_navigate", "url=" + page}, "A page of ours"},
		{"playwright-http", url(browserOverHTTP), "2025-11-25", playwrightTools, []string{"browser_navigate", "url=" + page}, "A page of ours"},
		{"devtools", devtools, "2025-11-25", devtoolsTools, []string{"new_page", "url=" + page}, page},
		{"github", r.githubSource(), "2026-07-28", githubTools, []string{"get_me"}, "Ada Lovelace"},
		{"typescript", stdioSource(append(typescript, "stdio")), "2026-07-28", []string{"greet"}, []string{"greet", "name=Ada"}, "Hello, Ada!"},
		{"typescript-http", url(r.startListening("/mcp", func(string) []string { return append(typescript, "http") })), "2026-07-28", []string{"greet"}, []string{"greet", "name=Ada"}, "Hello, Ada!"},
		{"fastmcp", stdioSource(fastMCP(t, "stdio")), "2026-07-28", fastTools, []string{"add", "a=3", "b=4"}, "7"},
		{"fastmcp-http", url(fast("http", "/mcp")), "2026-07-28", fastTools, []string{"add", "a=3", "b=4"}, "7"},
		{"fastmcp-sse", url(fast("sse", "/sse")), "2025-11-25", fastTools, []string{"greet", "name=Ada"}, "Hello, Ada!"},
	}
	sources := object{}
	for _, u := range upstreams {
		sources[u.name] = u.source
	}
	r.configure(sources)
	for _, u := range upstreams {
		t.Run(u.name, func(t *testing.T) {
			r := r.in(t)
			test := decode[struct{ State, Reason, Error string }](t, r.toolroom(0, "sources", "test", u.name, "--json").stdout)
			if test.State != "ready" || test.Reason != "protocol "+u.version {
				t.Errorf("the source is %+v, want protocol %s", test, u.version)
			}
			var names []string
			for _, tool := range decode[[]struct{ ID string }](t, r.toolroom(0, "tools", "--json").stdout) {
				if name, ok := strings.CutPrefix(tool.ID, u.name+":"); ok && !strings.HasPrefix(name, "resources.") && !strings.HasPrefix(name, "prompts.") {
					names = append(names, name)
				}
			}
			if diff := cmp.Diff(u.tools, names); diff != "" {
				t.Errorf("the tools differ (-want +got):\n%s", diff)
			}
			args := append([]string{"call", u.name + ":" + u.call[0]}, u.call[1:]...)
			if got := r.toolroom(0, args...).stdout; !strings.Contains(got, u.prints) {
				t.Errorf("the call printed %q, want %q in it", got, u.prints)
			}
			t.Logf("%s: protocol %s, %d tools, 1 call", u.name, u.version, len(names))
		})
	}
	t.Logf("%d upstreams", len(upstreams))
}
