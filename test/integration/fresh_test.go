//go:build integration

package integration

import (
	"net"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/toolroom/toolroom"
)

// filesystemNames are the tools of mcp-server-filesystem, as MCP clients see them.
var filesystemNames = []string{
	"filesystem__create_directory", "filesystem__directory_tree", "filesystem__edit_file", "filesystem__get_file_info",
	"filesystem__list_allowed_directories", "filesystem__list_directory", "filesystem__list_directory_with_sizes",
	"filesystem__move_file", "filesystem__read_file", "filesystem__read_media_file", "filesystem__read_multiple_files",
	"filesystem__read_text_file", "filesystem__search_files", "filesystem__write_file",
}

// directNames are filesystemNames and the tools of every room.
var directNames = slices.Concat([]string{"code__execute"}, filesystemNames, []string{"read_result", "system__info"})

func TestFreshMachineServesAFolderToTheInspector(t *testing.T) {
	t.Parallel()
	r := bareRoom(t)
	r.toolroom(0, "init")
	r.toolroom(0, "sources", "add", "filesystem", "--", nodeProgram(t), npmProgram(t, "mcp-server-filesystem"), r.files)
	readme := "The file of " + t.Name() + "\n"
	if out := r.toolroom(0, "call", "filesystem:read_text_file", "path=README.md"); out.stdout != readme {
		t.Fatalf("call printed %q, want %q", out.stdout, readme)
	}
	s := r.serveAt("127.0.0.1:0")
	for _, era := range []string{"legacy", "modern", "auto"} {
		listed := toolNames(r.inspect(s, era, "--method", "tools/list"))
		if !slices.Contains(listed, "file__read") {
			t.Errorf("%s: the built-in tools are not listed: %v", era, listed)
		}
		listed = slices.DeleteFunc(listed, func(name string) bool { return !slices.Contains(directNames, name) })
		if diff := cmp.Diff(directNames, listed); diff != "" {
			t.Errorf("%s: tools (-want +got):\n%s", era, diff)
		}
		result := r.inspect(s, era, "--method", "tools/call", "--tool-name", "filesystem__read_text_file", "--tool-arg", "path=README.md")
		if got := contentText(result); got != readme {
			t.Errorf("%s: the call answered %q, want %q", era, got, readme)
		}
	}
	surfaces := map[string]int{}
	for _, receipt := range r.receipts("filesystem:read_text_file") {
		surfaces[receipt.Surface+" "+string(receipt.Status)]++
	}
	if diff := cmp.Diff(map[string]int{"cli ok": 1, "mcp ok": 3}, surfaces); diff != "" {
		t.Errorf("receipts by surface (-want +got):\n%s", diff)
	}
}

func TestInspectorStartsTheServerOnStdio(t *testing.T) {
	for era := range eras {
		t.Run(era, func(t *testing.T) {
			t.Parallel()
			r := bareRoom(t)
			r.configure(object{"filesystem": r.filesystem()})
			if diff := cmp.Diff(directNames, toolNames(r.inspectStdio(era, "--method", "tools/list"))); diff != "" {
				t.Errorf("tools (-want +got):\n%s", diff)
			}
			result := r.inspectStdio(era, "--method", "tools/call", "--tool-name", "filesystem__read_text_file", "--tool-arg", "path=README.md")
			if got, want := contentText(result), "The file of "+t.Name()+"\n"; got != want {
				t.Errorf("the call answered %q, want %q", got, want)
			}
		})
	}
}

// A client may call before it lists, and before the sources have started.
func TestFirstCallAfterTheStartFindsItsTool(t *testing.T) {
	for era, version := range eras {
		t.Run(era, func(t *testing.T) {
			r := newRoom(t, nil)
			r.configure(object{"filesystem": r.filesystem()})
			session := connect(t, r.serve(), version, nil)
			_, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "filesystem__list_allowed_directories"})
			if err != nil {
				t.Error(err)
			}
		})
	}
	t.Run("HTTP", func(t *testing.T) {
		r := newRoom(t, nil)
		r.configure(object{"filesystem": r.filesystem()})
		s := r.serve()
		out := r.runProgram("curl", "-s", "--fail-with-body", s.url+"/api/v1/call", "-d", `{"tool": "filesystem:list_allowed_directories"}`)
		if out.code != 0 {
			t.Error(out.stdout)
		}
	})
}

func TestAddressInUseIsAnErrorOfThePlatform(t *testing.T) {
	r := newRoom(t, nil)
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	out := r.toolroom(toolroom.ExitError, "serve", "--listen", taken.Addr().String())
	if !strings.Contains(out.stderr, "listens on "+taken.Addr().String()) {
		t.Errorf("it says: %s", out.stderr)
	}
	address := strings.TrimPrefix(r.serve().url, "http://")
	out = r.toolroom(toolroom.ExitError, "serve", "--listen", address)
	if !strings.Contains(out.stderr, "is running already: process ") {
		t.Errorf("beside a server of the same home it says: %s", out.stderr)
	}
}
