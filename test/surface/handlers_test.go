package surface

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/catalog"
	"github.com/toolroom/toolroom/internal/schedule"
	"github.com/toolroom/toolroom/internal/store/sqlite"
)

// handler is one way to make a call.
type handler struct {
	name    string
	surface string // the surface in receipts
	// call makes the attempt and reports whether it succeeded.
	call func(*testing.T, *fixture, attempt) bool
	// through is the tool that makes the call, if any.
	through string
	// background means that the call waits for a person for as long as that takes.
	background bool
}

func handlers() []handler {
	return slices.Concat(directHandlers(), codeHandlers())
}

func directHandlers() []handler {
	return []handler{
		{name: "MCP of 2026-07-28", surface: "mcp", call: overMCP("2026-07-28")},
		{name: "MCP of 2025-11-25", surface: "mcp", call: overMCP("2025-11-25")},
		{name: "MCP of 2024-11-05 over SSE", surface: "mcp", call: func(t *testing.T, f *fixture, a attempt) bool {
			client := mcp.NewClient(&mcp.Implementation{Name: "surface", Version: "1"}, nil)
			session, err := client.Connect(t.Context(), &mcp.SSEClientTransport{Endpoint: f.url + "/sse", HTTPClient: &http.Client{Transport: identityTransport{a.who}}}, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer session.Close()
			return callMCP(t, session, a.spelled, a.arguments)
		}},
		{name: "MCP, found by search", surface: "mcp", call: func(t *testing.T, f *fixture, a attempt) bool {
			return callMCP(t, connect(t, f, a.who, "2026-07-28"), "call_tool", fmt.Sprintf(`{"tool":%q,"arguments":%s}`, a.spelled, a.arguments))
		}},
		{name: "HTTP, the tool in the path", surface: "http", call: overHTTP(func(a attempt) (string, string) {
			return "/api/v1/tools/" + strings.ReplaceAll(a.spelled, "/", "%2F") + "/call", `{"arguments":` + a.arguments + `}`
		})},
		{name: "HTTP, the tool in the body", surface: "http", call: overHTTP(func(a attempt) (string, string) {
			return "/api/v1/call", fmt.Sprintf(`{"tool":%q,"arguments":%s}`, a.spelled, a.arguments)
		})},
		{name: "HTTP, streamed", surface: "http", call: overHTTP(func(a attempt) (string, string) {
			return "/api/v1/call?stream=true", fmt.Sprintf(`{"tool":%q,"arguments":%s}`, a.spelled, a.arguments)
		})},
		{name: "HTTP, as ToolFlow", surface: "toolflow", call: func(t *testing.T, f *fixture, a attempt) bool {
			status, answer := f.post(t, a.who, "/compat/toolflow/mcp/", fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":%q,"arguments":%s}}`, a.spelled, a.arguments))
			return status == http.StatusOK && strings.Contains(string(answer), `"isError":false`)
		}},
		{name: "HTTP batch", surface: "http", call: overHTTP(func(a attempt) (string, string) {
			return "/api/v1/batch", fmt.Sprintf(`{"calls":[{"tool":%q,"arguments":%s}]}`, a.spelled, a.arguments)
		})},
		{name: "HTTP chain", surface: "http", call: overHTTP(func(a attempt) (string, string) {
			return "/api/v1/chain", fmt.Sprintf(`{"steps":[{"tool":%q,"arguments":%s}]}`, a.spelled, a.arguments)
		})},
		{name: "HTTP, in the background", surface: "http", background: true, call: inBackground},
		{name: "command line", surface: "cli", call: func(t *testing.T, f *fixture, a attempt) bool {
			code, _ := f.command(t, append(identityFlags(a.who), "call", a.spelled, a.arguments)...)
			return code == toolroom.ExitOK
		}},
		{name: "command line, chain", surface: "cli", call: func(t *testing.T, f *fixture, a attempt) bool {
			file := filepath.Join(t.TempDir(), "steps.json")
			if err := os.WriteFile(file, fmt.Appendf(nil, `[{"tool":%q,"arguments":%s}]`, a.spelled, a.arguments), 0o600); err != nil {
				t.Fatal(err)
			}
			code, _ := f.command(t, append(identityFlags(a.who), "chain", "-f", file)...)
			return code == toolroom.ExitOK
		}},
		{name: "Go", surface: "go", call: func(t *testing.T, f *fixture, a attempt) bool {
			return f.room.Run(t.Context(), a.call()).Error == nil
		}},
		{name: "Go stream", surface: "go", call: func(t *testing.T, f *fixture, a attempt) (worked bool) {
			for e := range f.room.Stream(t.Context(), a.call()) {
				if e.Result != nil {
					worked = e.Result.Error == nil
				}
			}
			return worked
		}},
		{name: "Go, later", surface: "go", background: true, call: func(t *testing.T, f *fixture, a attempt) bool {
			after := f.lastSequence(t)
			if _, err := f.room.Submit(t.Context(), a.call()); err != nil {
				t.Fatal(err)
			}
			return f.receiptAfter(t, after, a.tool).Error == nil
		}},
		{name: "a schedule", surface: "cron", background: true, call: onSchedule},
		{name: "Go batch", surface: "go", call: func(t *testing.T, f *fixture, a attempt) bool {
			return f.room.Batch(t.Context(), []toolroom.Call{a.call()}, 1)[0].Error == nil
		}},
		{name: "Go chain", surface: "chain", call: func(t *testing.T, f *fixture, a attempt) bool {
			steps := []toolroom.Step{{Tool: a.spelled, Arguments: json.RawMessage(a.arguments)}}
			return f.room.Chain(t.Context(), toolroom.Call{Identity: a.who}, steps).Error == nil
		}},
		{name: "a call from inside a tool", surface: "go", through: "relay:call", call: func(t *testing.T, f *fixture, a attempt) bool {
			arguments := fmt.Sprintf(`{"tool":%q,"arguments":%s}`, a.spelled, a.arguments)
			r := f.room.Run(t.Context(), toolroom.Call{Tool: "relay:call", Arguments: json.RawMessage(arguments), Identity: a.who})
			if r.Error != nil {
				t.Fatal(r.Error)
			}
			return string(r.Value) == "true"
		}},
	}
}

func (a attempt) call() toolroom.Call {
	return toolroom.Call{Tool: a.spelled, Arguments: json.RawMessage(a.arguments), Identity: a.who}
}

func identityFlags(who toolroom.Identity) []string {
	var flags []string
	for name, value := range map[string]string{"agent": who.Agent, "provider": who.Provider, "skill": who.Skill} {
		if value != "" {
			flags = append(flags, "--"+name, value)
		}
	}
	return flags
}

func overHTTP(write func(attempt) (path, body string)) func(*testing.T, *fixture, attempt) bool {
	return func(t *testing.T, f *fixture, a attempt) bool {
		path, body := write(a)
		status, answer := f.post(t, a.who, path, body)
		return status == http.StatusOK && !strings.Contains(string(answer), `"error":{`)
	}
}

// inBackground makes the attempt as a background call and reports whether it succeeded.
func inBackground(t *testing.T, f *fixture, a attempt) bool {
	after := f.lastSequence(t)
	status, answer := f.post(t, a.who, "/api/v1/call?async=true", fmt.Sprintf(`{"tool":%q,"arguments":%s}`, a.spelled, a.arguments))
	if status != http.StatusAccepted {
		t.Fatalf("%d %s", status, answer)
	}
	return f.receiptAfter(t, after, a.tool).Error == nil
}

// onSchedule makes the attempt as the call of a schedule that is due. It was made when the
// policy still permitted it.
func onSchedule(t *testing.T, f *fixture, a attempt) bool {
	store, err := sqlite.Open(t.Context(), filepath.Join(f.dir, "home", "toolroom.db"), sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	after, due := f.lastSequence(t), time.Now().Add(-time.Second)
	s := &schedule.Schedule{
		ID: "cron_" + rand.Text(), When: "@hourly", Zone: "UTC", Missed: schedule.MissedOnce, Created: due, Settled: due, Next: due, Call: a.call(),
	}
	s.Call.Surface, s.Call.Session = schedule.Surface, s.ID
	if err := store.CreateSchedule(t.Context(), s, schedule.MaxPerOwner); err != nil {
		t.Fatal(err)
	}
	return f.receiptAfter(t, after, a.tool).Error == nil
}

// identityTransport adds the headers of an identity to every request.
type identityTransport struct{ who toolroom.Identity }

func (a identityTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	actAs(r, a.who)
	return http.DefaultTransport.RoundTrip(r)
}

func connect(t *testing.T, f *fixture, who toolroom.Identity, version string) *mcp.ClientSession {
	t.Helper()
	client := mcp.NewClient(&mcp.Implementation{Name: "surface", Version: "1"}, nil)
	transport := &mcp.StreamableClientTransport{Endpoint: f.url + "/mcp", HTTPClient: &http.Client{Transport: identityTransport{who}}}
	session, err := client.Connect(t.Context(), transport, &mcp.ClientSessionOptions{ProtocolVersion: version})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { session.Close() })
	return session
}

func overMCP(version string) func(*testing.T, *fixture, attempt) bool {
	return func(t *testing.T, f *fixture, a attempt) bool {
		return callMCP(t, connect(t, f, a.who, version), a.spelled, a.arguments)
	}
}

func callMCP(t *testing.T, session *mcp.ClientSession, tool, arguments string) bool {
	t.Helper()
	result, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: tool, Arguments: json.RawMessage(arguments)})
	return err == nil && !result.IsError
}

// list is one way to list the tools. It returns canonical ids.
type list struct {
	name string
	list func(*testing.T, *fixture, toolroom.Identity) []string
}

func lists() []list {
	return []list{
		{"MCP of 2026-07-28", listMCP("2026-07-28")},
		{"MCP of 2025-11-25", listMCP("2025-11-25")},
		{"HTTP", func(t *testing.T, f *fixture, who toolroom.Identity) []string {
			status, answer := f.request(t, http.MethodGet, who, "/api/v1/tools?limit=1000", "")
			if status != http.StatusOK {
				t.Fatalf("%d %s", status, answer)
			}
			var page struct{ Tools []struct{ ID string } }
			if err := json.Unmarshal(answer, &page); err != nil {
				t.Fatal(err)
			}
			var ids []string
			for _, tool := range page.Tools {
				ids = append(ids, tool.ID)
			}
			return ids
		}},
		{"HTTP search", func(t *testing.T, f *fixture, who toolroom.Identity) []string {
			status, answer := f.request(t, http.MethodGet, who, "/api/v1/search?limit=100&q=a+tool+of+the+test", "")
			if status != http.StatusOK {
				t.Fatalf("%d %s", status, answer)
			}
			var found struct{ Hits []struct{ ID string } }
			if err := json.Unmarshal(answer, &found); err != nil {
				t.Fatal(err)
			}
			var ids []string
			for _, hit := range found.Hits {
				ids = append(ids, hit.ID)
			}
			return ids
		}},
		{"command line", func(t *testing.T, f *fixture, who toolroom.Identity) []string {
			code, out := f.command(t, append([]string{"tools", "--json"}, identityFlags(who)...)...)
			var tools []toolroom.Tool
			if err := json.Unmarshal([]byte(out), &tools); code != toolroom.ExitOK || err != nil {
				t.Fatalf("%d %v", code, err)
			}
			var ids []string
			for _, tool := range tools {
				ids = append(ids, tool.ID.String())
			}
			return ids
		}},
		{"Go", func(t *testing.T, f *fixture, who toolroom.Identity) []string {
			page, err := f.room.Tools(who, catalog.ListOptions{Limit: 1000})
			if err != nil {
				t.Fatal(err)
			}
			var ids []string
			for _, e := range page.Entries {
				ids = append(ids, e.ID)
			}
			return ids
		}},
	}
}

func listMCP(version string) func(*testing.T, *fixture, toolroom.Identity) []string {
	return func(t *testing.T, f *fixture, who toolroom.Identity) []string {
		var ids []string
		for tool, err := range connect(t, f, who, version).Tools(t.Context(), nil) {
			if err != nil {
				t.Fatal(err)
			}
			ids = append(ids, strings.Replace(tool.Name, "__", ":", 1))
		}
		return ids
	}
}
