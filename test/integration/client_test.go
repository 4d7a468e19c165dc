//go:build integration

package integration

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/toolroom/toolroom"
)

// eras are the two protocol eras, as the Inspector and the SDK name them.
var eras = map[string]string{"legacy": "2025-11-25", "modern": "2026-07-28"}

// inspect runs the Inspector on the server and returns the result.
func (r *room) inspect(s *server, era string, args ...string) object {
	r.t.Helper()
	target := []string{"--server-url", s.url + "/mcp", "--transport", "http", "--protocol-era", era}
	return r.inspector(append(target, args...)...)
}

// inspectStdio runs the Inspector on a server that the Inspector starts itself.
func (r *room) inspectStdio(era string, args ...string) object {
	r.t.Helper()
	return r.inspector(append([]string{binary(r.t), "serve", "--stdio", "--trust-config", "--protocol-era", era}, args...)...)
}

func (r *room) inspector(args ...string) object {
	r.t.Helper()
	args = append([]string{npmProgram(r.t, "mcp-inspector"), "--cli"}, args...)
	// Without a limit of its own, 15 seconds by default, which a chain of two Node programs can
	// exceed on a busy machine: runProgram has one.
	out := r.runProgram(nodeProgram(r.t), append(args, "--connect-timeout", "0", "--format", "json", "-q")...)
	answer := decode[struct{ Result object }](r.t, out.stdout+out.stderr)
	if answer.Result == nil {
		r.t.Fatalf("the Inspector got no result from %q:\n%s%s", args, out.stdout, out.stderr)
	}
	return answer.Result
}

// toolNames returns the sorted names of a tools/list result.
func toolNames(result object) []string {
	var names []string
	tools, _ := result["tools"].([]any)
	for _, tool := range tools {
		names = append(names, tool.(object)["name"].(string))
	}
	slices.Sort(names)
	return names
}

// contentText joins the text of a tools/call result.
func contentText(result object) string {
	var text strings.Builder
	content, _ := result["content"].([]any)
	for _, c := range content {
		part, _ := c.(object)["text"].(string)
		text.WriteString(part)
	}
	return text.String()
}

// connect connects a client of the go-sdk that speaks one era.
func connect(t *testing.T, s *server, version string, o *mcp.ClientOptions) *mcp.ClientSession {
	t.Helper()
	client := mcp.NewClient(&mcp.Implementation{Name: "integration", Version: "1"}, o)
	ctx, cancel := context.WithTimeout(t.Context(), waitTimeout)
	t.Cleanup(cancel)
	session, err := client.Connect(ctx, &mcp.StreamableClientTransport{Endpoint: s.url + "/mcp"}, &mcp.ClientSessionOptions{ProtocolVersion: version})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { session.Close() })
	return session
}

// callJSON calls a tool with the binary and checks the exit code.
func (r *room) callJSON(code int, tool, args string) *toolroom.Result {
	r.t.Helper()
	out := r.toolroom(code, "call", tool, args, "--json")
	var result toolroom.Result
	if err := json.Unmarshal([]byte(out.stdout), &result); err != nil {
		r.t.Fatalf("%v in %s%s", err, out.stdout, out.stderr)
	}
	return &result
}

// receipts returns the receipts of a tool, newest first.
func (r *room) receipts(tool string) []toolroom.Receipt {
	r.t.Helper()
	return decode[[]toolroom.Receipt](r.t, r.toolroom(0, "calls", "--json", "--tool", tool).stdout)
}
