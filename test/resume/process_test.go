package resume

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// session opens a session of the older MCP, as a client does again after its own restart.
func (f *fixture) session() *mcp.ClientSession {
	f.t.Helper()
	client := mcp.NewClient(&mcp.Implementation{Name: "resume", Version: "1"}, nil)
	session, err := client.Connect(f.t.Context(), &mcp.StreamableClientTransport{Endpoint: f.url + "/mcp"}, &mcp.ClientSessionOptions{ProtocolVersion: "2025-06-18"})
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { session.Close() })
	return session
}

type processOutput struct {
	PID        int
	Output     string
	NextOffset int64 `json:"next_offset"`
}

// callTool calls a tool. It returns the text of an error.
func callTool(t *testing.T, s *mcp.ClientSession, tool string, arguments object) (out processOutput, failure string) {
	t.Helper()
	r, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: strings.Replace(tool, ":", "__", 1), Arguments: arguments})
	if err != nil {
		t.Fatal(err)
	}
	text := ""
	for _, c := range r.Content {
		if c, ok := c.(*mcp.TextContent); ok {
			text += c.Text
		}
	}
	if r.IsError {
		return out, text
	}
	data, err := json.Marshal(r.StructuredContent)
	if err == nil {
		err = json.Unmarshal(data, &out)
	}
	if err != nil {
		t.Fatal(err)
	}
	return out, ""
}

// The output of a background process is read from an offset by the next session of its
// caller. It ends with the server.
func TestOutputOfAProcessOutlivesItsSessionButNotTheServer(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.write("toolroom.yaml", `{server: {listen: "127.0.0.1:0"}, expose: {mode: direct}, builtin: {file: {roots: ["`+t.TempDir()+`"]}, shell: {runtime: host}, process: {}}}`)
	f.start()
	first := f.session()
	p, failure := callTool(t, first, "process:start", object{"command": "read -r line; echo first; read -r line; echo second; sleep 60", "pty": true})
	if failure != "" {
		t.Fatal(failure)
	}
	see := func(s *mcp.ClientSession, offset int64, want string) int64 {
		t.Helper()
		out := processOutput{NextOffset: offset}
		for seen := ""; !strings.Contains(seen, want); seen += out.Output {
			if out, failure = callTool(t, s, "process:output", object{"pid": p.PID, "offset": out.NextOffset, "wait": 1000}); failure != "" {
				t.Fatal(failure)
			}
		}
		return out.NextOffset
	}
	write := func(s *mcp.ClientSession) {
		t.Helper()
		if _, failure := callTool(t, s, "process:write", object{"pid": p.PID, "input": "\n"}); failure != "" {
			t.Fatal(failure)
		}
	}
	write(first)
	offset := see(first, 0, "first\r\n")
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	next := f.session()
	write(next)
	see(next, offset, "second\r\n")
	see(next, 0, "first\r\n")
	f.kill()
	f.start()
	if _, failure := callTool(t, f.session(), "process:output", object{"pid": p.PID}); !strings.Contains(failure, "ends with Toolroom") {
		t.Errorf("after a restart of the server: %s", failure)
	}
}
