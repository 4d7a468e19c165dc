package mcp_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/approval"
	"github.com/toolroom/toolroom/internal/artifact"
	"github.com/toolroom/toolroom/internal/catalog"
	"github.com/toolroom/toolroom/internal/policy"
	"github.com/toolroom/toolroom/internal/run"
	mcpserver "github.com/toolroom/toolroom/internal/server/mcp"
	"github.com/toolroom/toolroom/internal/source/gofunc"
	"github.com/toolroom/toolroom/internal/store/sqlite"
	"github.com/toolroom/toolroom/source"
)

// The protocol revisions that clients speak here: one of each era.
const (
	modern = "2026-07-28"
	legacy = "2025-06-18"
)

// fixture is a server over Go functions, at an HTTP address.
type fixture struct {
	t         *testing.T
	url       string
	runner    *run.Runner
	funcs     *gofunc.Source
	approvals *approval.Service
	store     *sqlite.Store
	library   *catalog.Library
	server    *mcpserver.Server
	deleted   atomic.Int64
}

// subjectHeader says who calls, in place of a token, and tokenHeader is the id of the token.
const (
	subjectHeader = "X-Test-Subject"
	tokenHeader   = "X-Test-Token"
)

type identityKey struct{}

func identity(ctx context.Context) toolroom.Identity {
	who, _ := ctx.Value(identityKey{}).(toolroom.Identity)
	return who
}

func serve(t *testing.T, expose mcpserver.Exposure) *fixture {
	t.Helper()
	return serveWith(t, expose, approval.Options{Terms: func(string) toolroom.ApprovalTerms {
		return toolroom.ApprovalTerms{Approvers: append(approval.DefaultApprovers(), "caller")}
	}})
}

func serveWith(t *testing.T, expose mcpserver.Exposure, approvals approval.Options, change ...func(*mcpserver.Options)) *fixture {
	t.Helper()
	store, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "db"), sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	files, err := artifact.Open(t.Context(), t.TempDir(), store, artifact.Options{})
	if err != nil {
		t.Fatal(err)
	}
	layers, err := policy.Compile(policy.Config{Rules: policy.Rules{Deny: []string{"secret.*"}, Confirm: []string{"file.delete"}}})
	if err != nil {
		t.Fatal(err)
	}
	f := &fixture{t: t, funcs: &gofunc.Source{}, approvals: approval.New(store, approvals), store: store, library: &catalog.Library{}}
	f.runner = run.New(run.Options{
		Catalog: catalog.New(catalog.Options{Coalesce: 10 * time.Millisecond}),
		Policy:  layers, Approvals: f.approvals, Artifacts: files, Owner: "test", Jobs: store, Keys: store,
	})
	worker := run.NewWorker(f.runner, run.WorkerOptions{Poll: 10 * time.Millisecond})
	working, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { worker.Run(working) })
	f.add("echo:it", func(_ context.Context, req *source.Request) (*source.Output, error) {
		return &source.Output{Value: req.Arguments}, nil
	})
	f.add("count:it", value(`5`))
	f.add("secret:it", value(`1`))
	f.add("long:it", func(context.Context, *source.Request) (*source.Output, error) {
		return &source.Output{Content: []toolroom.Content{toolroom.TextContent(strings.Repeat("0123456789", 10_000))}}, nil
	})
	f.add("fail:it", func(context.Context, *source.Request) (*source.Output, error) {
		return &source.Output{Failed: true, Content: []toolroom.Content{toolroom.TextContent("no such file")}}, nil
	})
	f.add("odd:it", func(context.Context, *source.Request) (*source.Output, error) {
		return &source.Output{Content: []toolroom.Content{{Type: "hologram", Raw: json.RawMessage(`{"type":"hologram","beam":1}`)}}}, nil
	})
	f.add("file:delete", func(context.Context, *source.Request) (*source.Output, error) {
		f.deleted.Add(1)
		return &source.Output{Value: json.RawMessage(`"deleted"`)}, nil
	})
	f.add("slow:steps", func(ctx context.Context, req *source.Request) (*source.Output, error) {
		req.Emit(toolroom.Event{Kind: toolroom.EventProgress, Progress: &toolroom.Progress{Done: 1, Total: 2, Message: "half"}})
		return &source.Output{}, nil
	})
	f.add("who:am_i", func(_ context.Context, req *source.Request) (*source.Output, error) {
		return &source.Output{Content: []toolroom.Content{toolroom.TextContent(req.Identity.Key())}}, nil
	})
	o := mcpserver.Options{Runner: f.runner, Artifacts: files, Approvals: f.approvals, Library: f.library, Worker: worker, Expose: expose, Version: "test", Identity: identity}
	for _, do := range change {
		do(&o)
	}
	s, err := mcpserver.New(o)
	if err != nil {
		t.Fatal(err)
	}
	f.server = s
	handler := http.NewServeMux()
	handler.Handle("/", s.HTTP())
	handler.Handle("/sse", s.SSE())
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		who := toolroom.Identity{Subject: r.Header.Get(subjectHeader), Agent: r.Header.Get("Agent"), Token: r.Header.Get(tokenHeader)}
		handler.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), identityKey{}, who)))
	}))
	f.url = h.URL
	t.Cleanup(func() {
		h.CloseClientConnections()
		h.Close()
		s.Close()
		stop()
		running.Wait()
		store.Close()
	})
	return f
}

func value(text string) gofunc.Handler {
	return func(context.Context, *source.Request) (*source.Output, error) {
		return &source.Output{Value: json.RawMessage(text)}, nil
	}
}

func (f *fixture) add(id string, h gofunc.Handler) {
	f.t.Helper()
	tool := toolroom.Tool{ID: toolroom.MustParseID(id), Source: toolroom.SourceGo, Description: "the tool " + id}
	f.funcs.Put(gofunc.Func{Tool: tool, Handler: h})
	if err := f.runner.Catalog.Register("go", f.funcs, tool); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fixture) connect(version string, o *mcp.ClientOptions) *mcp.ClientSession {
	f.t.Helper()
	client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, o)
	session, err := client.Connect(f.t.Context(), &mcp.StreamableClientTransport{Endpoint: f.url}, &mcp.ClientSessionOptions{ProtocolVersion: version})
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { session.Close() })
	if got := session.InitializeResult().ProtocolVersion; got != version {
		f.t.Fatalf("the session speaks %s, not %s", got, version)
	}
	return session
}

// inEachEra runs a test with clients of both eras.
func inEachEra(t *testing.T, expose mcpserver.Exposure, test func(t *testing.T, f *fixture, version string)) {
	t.Parallel()
	for _, version := range []string{modern, legacy} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			test(t, serve(t, expose), version)
		})
	}
}

func direct(t *testing.T) mcpserver.Exposure {
	all, err := policy.ParsePatterns([]string{"*"})
	if err != nil {
		t.Fatal(err)
	}
	return mcpserver.Exposure{Direct: all}
}

func names(t *testing.T, s *mcp.ClientSession) []string {
	t.Helper()
	list, err := s.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, tool := range list.Tools {
		names = append(names, tool.Name)
	}
	return names
}

func text(r *mcp.CallToolResult) string {
	for _, c := range r.Content {
		if text, ok := c.(*mcp.TextContent); ok {
			return text.Text
		}
	}
	return ""
}

func TestAllowedToolsAreListedByTheirModelNamesInOrder(t *testing.T) {
	inEachEra(t, direct(t), func(t *testing.T, f *fixture, version string) {
		want := []string{"read_result", "count__it", "echo__it", "fail__it", "file__delete", "long__it", "odd__it", "slow__steps", "who__am_i"}
		if got := names(t, f.connect(version, nil)); !slices.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
	})
}

func TestWhatACallGivesIsWhatTheClientGets(t *testing.T) {
	inEachEra(t, direct(t), func(t *testing.T, f *fixture, version string) {
		s := f.connect(version, nil)
		call := func(name, args string) (*mcp.CallToolResult, error) {
			return s.CallTool(t.Context(), &mcp.CallToolParams{Name: name, Arguments: json.RawMessage(args)})
		}
		if r, err := call("echo__it", `{"n":1}`); err != nil || r.IsError || text(r) != `{"n":1}` || r.StructuredContent == nil {
			t.Errorf("echo: %+v, %v", r, err)
		}
		if r, err := call("echo:it", `{}`); err != nil || r.IsError {
			t.Errorf("by its id: %+v, %v", r, err)
		}
		r, err := call("count__it", `{}`)
		if err != nil || text(r) != "5" || (r.StructuredContent != nil) != (version == modern) {
			t.Errorf("a scalar: %+v, %v", r, err)
		}
		if r, err := call("fail__it", `{}`); err != nil || !r.IsError || text(r) != "no such file" {
			t.Errorf("a failed tool: %+v, %v", r, err)
		}
		if r, err := call("echo__it", `[1]`); err == nil && !r.IsError {
			t.Errorf("a list as arguments: %+v", r)
		}
		if r, err := call("secret__it", `{}`); err != nil || !r.IsError || !strings.HasPrefix(text(r), "denied:") {
			t.Errorf("a denied tool: %+v, %v", r, err)
		}
		var rpc *jsonrpc.Error
		if _, err := call("no__such", `{}`); !errors.As(err, &rpc) || rpc.Code != jsonrpc.CodeInvalidParams {
			t.Errorf("an unknown tool: %v", err)
		}
	})
}

func TestALongResultIsCutAndReadOn(t *testing.T) {
	inEachEra(t, direct(t), func(t *testing.T, f *fixture, version string) {
		s := f.connect(version, nil)
		r, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: "long__it"})
		if err != nil {
			t.Fatal(err)
		}
		var note struct {
			Hidden toolroom.Hidden `json:"hidden"`
		}
		raw, _ := json.Marshal(r.Meta["toolroom/result"])
		if err := json.Unmarshal(raw, &note); err != nil || note.Hidden.Bytes != 100_000-51_200 {
			t.Fatalf("the note is %s, %v", raw, err)
		}
		page, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: "read_result", Arguments: map[string]any{"handle": note.Hidden.Handle, "offset": 40_005, "limit": 10}})
		if err != nil || page.IsError || !strings.Contains(text(page), "5678901234") {
			t.Errorf("reading on gave %s, %v", text(page), err)
		}
		page, err = s.CallTool(t.Context(), &mcp.CallToolParams{Name: "read_result", Arguments: map[string]any{"handle": "res_none"}})
		if err != nil || !page.IsError || !strings.HasPrefix(text(page), "not_found:") {
			t.Errorf("an unknown handle: %s, %v", text(page), err)
		}
	})
}

func TestDescriptionsOfManyToolsAreBounded(t *testing.T) {
	t.Parallel()
	f := serve(t, mcpserver.Exposure{Search: true})
	var ids []string
	for i := range 4 {
		tool := toolroom.Tool{
			ID: toolroom.MustParseID(fmt.Sprintf("large:t%d", i)), Source: toolroom.SourceGo, Description: "large",
			InputSchema: json.RawMessage(`{"type":"object","description":"` + strings.Repeat("x", 200_000) + `"}`),
			Examples:    []toolroom.Example{{Arguments: json.RawMessage(`{"text":"` + strings.Repeat("y", 50_000) + `"}`)}},
		}
		if err := f.runner.Catalog.Register("go", f.funcs, tool); err != nil {
			t.Fatal(err)
		}
		ids = append(ids, tool.ID.String())
	}
	describe := func(tools ...string) (out struct {
		size  int
		Tools []struct {
			Summary     string
			InputSchema json.RawMessage `json:"input_schema"`
		}
		Shortened []string
		Note      string
	},
	) {
		t.Helper()
		r, err := f.connect("2025-06-18", nil).CallTool(t.Context(), &mcp.CallToolParams{Name: "describe_tools", Arguments: map[string]any{"tools": tools}})
		if err != nil {
			t.Fatal(err)
		}
		out.size = len(text(r))
		if err := json.Unmarshal([]byte(text(r)), &out); err != nil {
			t.Fatal(err)
		}
		return out
	}
	all := describe(ids...)
	if all.size > 257<<10 || all.Tools[3].Summary == "" {
		t.Errorf("%d bytes, the last one is described as %+v", all.size, all.Tools[3])
	}
	if len(all.Tools) != 4 || len(all.Tools[0].InputSchema) < 200_000 || !slices.Equal(all.Shortened, ids[1:]) || all.Note == "" {
		t.Errorf("%d tools, without their schemas %v: %s", len(all.Tools), all.Shortened, all.Note)
	}
	if one := describe(ids[1]); len(one.Tools) != 1 || len(one.Tools[0].InputSchema) < 200_000 || one.Shortened != nil {
		t.Errorf("one tool: without its schema %v: %s", one.Shortened, one.Note)
	}
}

func TestSearchModeFindsDescribesAndCalls(t *testing.T) {
	inEachEra(t, mcpserver.Exposure{Search: true}, func(t *testing.T, f *fixture, version string) {
		s := f.connect(version, nil)
		if got := names(t, s); !slices.Equal(got, []string{"search_tools", "describe_tools", "call_tool", "read_result"}) {
			t.Fatalf("got %v", got)
		}
		call := func(name string, args map[string]any) *mcp.CallToolResult {
			r, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: name, Arguments: args})
			if err != nil {
				t.Fatal(err)
			}
			return r
		}
		if found := text(call("search_tools", map[string]any{"query": "echo"})); !strings.Contains(found, `"id":"echo:it"`) || !strings.Contains(found, "call_tool") {
			t.Errorf("search gave %s", found)
		}
		if none := text(call("search_tools", map[string]any{"query": "zzzzqqqq"})); !strings.Contains(none, "nothing matches") {
			t.Errorf("search without hits gave %s", none)
		}
		if d := text(call("describe_tools", map[string]any{"tools": []string{"echo:it", "secret:it", "nothing"}})); !strings.Contains(d, `"echo:it"`) || !strings.Contains(d, "not_found") || strings.Contains(d, "the tool secret:it") {
			t.Errorf("describe gave %s", d)
		}
		if r := call("call_tool", map[string]any{"tool": "echo:it", "arguments": map[string]any{"a": 1}}); r.IsError || text(r) != `{"a":1}` {
			t.Errorf("call gave %+v", r)
		}
		if r := call("call_tool", map[string]any{"tol": "echo:it"}); !r.IsError || !strings.Contains(text(r), "tool") {
			t.Errorf("a slip gave %s", text(r))
		}
	})
}

func TestAPersonIsAskedThroughTheClient(t *testing.T) {
	for _, answer := range []struct {
		name, action string
		content      map[string]any
		runs         bool
	}{
		{"allowed", "accept", map[string]any{"approve": true}, true},
		{"not ticked", "accept", map[string]any{"approve": false}, false},
		{"declined", "decline", nil, false},
		{"dismissed", "cancel", nil, false},
	} {
		t.Run(answer.name, func(t *testing.T) {
			inEachEra(t, direct(t), func(t *testing.T, f *fixture, version string) {
				asked := ""
				s := f.connect(version, &mcp.ClientOptions{ElicitationHandler: func(_ context.Context, req *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
					asked = req.Params.Message
					return &mcp.ElicitResult{Action: answer.action, Content: answer.content}, nil
				}})
				r, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: "file__delete", Arguments: map[string]any{"path": "a"}})
				if err != nil {
					t.Fatal(err)
				}
				if !strings.Contains(asked, "file:delete") || !strings.Contains(asked, `"path": "a"`) {
					t.Errorf("the question was %q", asked)
				}
				if runs := f.deleted.Load() == 1; runs != answer.runs || r.IsError == answer.runs {
					t.Errorf("ran %v, result %s", runs, text(r))
				}
			})
		})
	}
}

func TestAForgedAnswerIsNoConsent(t *testing.T) {
	t.Parallel()
	f := serve(t, direct(t))
	body := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"file__delete","arguments":{"path":"a"},
		"inputResponses":{"approval":{"action":"accept","content":{"approve":true}}},"requestState":"apr_forged",
		"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"elicitation":{}}}}}`
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, f.url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for name, v := range map[string]string{"Content-Type": "application/json", "Accept": "application/json, text/event-stream", "MCP-Protocol-Version": modern, "Mcp-Method": "tools/call", "Mcp-Name": "file__delete"} {
		req.Header.Set(name, v)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	answer, _ := io.ReadAll(resp.Body)
	if f.deleted.Load() != 0 || !strings.Contains(string(answer), "error") {
		t.Errorf("it ran %d times: %s", f.deleted.Load(), answer)
	}
}

func TestAClientThatCannotAskWaitsForAnAnswerFromElsewhere(t *testing.T) {
	inEachEra(t, direct(t), func(t *testing.T, f *fixture, version string) {
		go func() {
			for t.Context().Err() == nil {
				open, err := f.approvals.List(t.Context(), toolroom.ApprovalPending)
				if err == nil && len(open) == 1 {
					_, _ = f.approvals.Answer(t.Context(), open[0].ID, toolroom.Answer{Approve: true, By: "ada"})
					return
				}
				time.Sleep(5 * time.Millisecond)
			}
		}()
		r, err := f.connect(version, nil).CallTool(t.Context(), &mcp.CallToolParams{Name: "file__delete"})
		if err != nil || r.IsError || f.deleted.Load() != 1 {
			t.Errorf("got %+v, %v", r, err)
		}
	})
}

// answerNext answers the next question as the operator would.
func (f *fixture) answerNext(t *testing.T, answer toolroom.Answer) {
	for t.Context().Err() == nil {
		open, err := f.approvals.List(t.Context(), toolroom.ApprovalPending)
		if err == nil && len(open) == 1 {
			_, _ = f.approvals.Answer(t.Context(), open[0].ID, answer)
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func TestClientsHearOfChangedTools(t *testing.T) {
	inEachEra(t, direct(t), func(t *testing.T, f *fixture, version string) {
		heard := make(chan struct{}, 10)
		s := f.connect(version, &mcp.ClientOptions{ToolListChangedHandler: func(context.Context, *mcp.ToolListChangedRequest) { heard <- struct{}{} }})
		before := len(names(t, s))
		// The stream of notifications opens beside the session; until it is
		// there, tell again.
		for i := 0; ; i++ {
			f.add("new:tool"+string(rune('a'+i%26)), value(`1`))
			select {
			case <-heard:
				if after := len(names(t, s)); after <= before {
					t.Errorf("%d tools before, %d after", before, after)
				}
				return
			case <-time.After(200 * time.Millisecond):
			}
		}
	})
}

func TestProgressReachesTheClient(t *testing.T) {
	inEachEra(t, direct(t), func(t *testing.T, f *fixture, version string) {
		got := make(chan *mcp.ProgressNotificationParams, 10)
		s := f.connect(version, &mcp.ClientOptions{ProgressNotificationHandler: func(_ context.Context, req *mcp.ProgressNotificationClientRequest) {
			got <- req.Params
		}})
		params := &mcp.CallToolParams{Name: "slow__steps"}
		params.SetProgressToken("p")
		if _, err := s.CallTool(t.Context(), params); err != nil {
			t.Fatal(err)
		}
		if p := <-got; p.Progress != 1 || p.Total != 2 || p.Message != "half" {
			t.Errorf("got %+v", p)
		}
	})
}

func TestASessionServesOnlyWhoBeganIt(t *testing.T) {
	t.Parallel()
	f := serve(t, direct(t))
	post := func(subject, session, body string) (*http.Response, string) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, f.url, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Accept", "application/json, text/event-stream")
		req.Header.Set(subjectHeader, subject)
		if session != "" {
			req.Header.Set("Mcp-Session-Id", session)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		answer, _ := io.ReadAll(resp.Body)
		return resp, string(answer)
	}
	begun, _ := post("ada", "", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`)
	session := begun.Header.Get("Mcp-Session-Id")
	if session == "" {
		t.Fatalf("no session began: %s", begun.Status)
	}
	post("ada", session, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	const whoami = `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"who__am_i","arguments":{}}}`
	if resp, answer := post("ada", session, whoami); resp.StatusCode != http.StatusOK || !strings.Contains(answer, "ada") {
		t.Errorf("the owner got %s %s", resp.Status, answer)
	}
	if resp, answer := post("eve", session, whoami); resp.StatusCode != http.StatusNotFound || strings.Contains(answer, "ada") {
		t.Errorf("somebody else got %s %s", resp.Status, answer)
	}
	if resp, _ := post("ada", "guessed", whoami); resp.StatusCode != http.StatusNotFound {
		t.Errorf("a session that nobody began: %s", resp.Status)
	}
}

func TestContentOfAnUnknownKindGoesOutAsItCame(t *testing.T) {
	t.Parallel()
	f := serve(t, direct(t))
	body := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"odd__it","arguments":{},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, f.url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for name, v := range map[string]string{"Content-Type": "application/json", "Accept": "application/json, text/event-stream", "MCP-Protocol-Version": modern, "Mcp-Method": "tools/call", "Mcp-Name": "odd__it"} {
		req.Header.Set(name, v)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	answer, _ := io.ReadAll(resp.Body)
	if !strings.Contains(string(answer), `{"type":"hologram","beam":1}`) {
		t.Errorf("got %s", answer)
	}
}
