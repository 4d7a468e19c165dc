package mcp_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/approval"
	"github.com/toolroom/toolroom/internal/catalog"
	mcpserver "github.com/toolroom/toolroom/internal/server/mcp"
	"github.com/toolroom/toolroom/source"
)

func TestACallHasTheIdentityOfItsOwnRequest(t *testing.T) {
	t.Parallel()
	f := serve(t, direct(t))
	f.add("who:agent", func(_ context.Context, req *source.Request) (*source.Output, error) {
		return &source.Output{Content: []toolroom.Content{toolroom.TextContent("agent=" + req.Identity.Agent + ".")}}, nil
	})
	session := ""
	post := func(agent, accept, body string) string {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, f.url, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header = http.Header{"Content-Type": {"application/json"}, "Accept": strings.Split(accept, "|"), subjectHeader: {"ann"}, "Agent": {agent}}
		if session != "" {
			req.Header.Set("Mcp-Session-Id", session)
			req.Header.Set("MCP-Protocol-Version", "2025-03-26")
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if id := resp.Header.Get("Mcp-Session-Id"); id != "" {
			session = id
		}
		text, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	const both = "application/json, text/event-stream"
	post("first", both, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-03-26","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}`)
	post("first", both, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	const call = `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"who__agent","arguments":{}}}`
	for name, got := range map[string]string{
		"served directly":       post("", both, call),
		"a batch":               post("", both, "["+call+"]"),
		"two headers of a kind": post("", "application/json|text/event-stream", call),
	} {
		if !strings.Contains(got, "agent=.") || strings.Contains(got, "agent=first.") {
			t.Errorf("%s: %s", name, got)
		}
	}
	if got := post("second", both, call); !strings.Contains(got, "session not found") {
		t.Errorf("a caller that does not reach the session's: %s", got)
	}
}

// telling is a source that reports changes of resources.
type telling struct {
	source.Source
	fail atomic.Bool

	mu     sync.Mutex
	events []string
}

func (s *telling) note(event string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.events = append(s.events, event)
}

func (s *telling) seen() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.events, " ")
}

type watching struct {
	*telling
	source.NoLibrary
}

func (w watching) Subscribe(context.Context, string) error {
	if w.fail.Load() {
		return toolroom.Errorf(toolroom.CodeUpstreamUnavailable, "down")
	}
	w.note("subscribe")
	return nil
}

func (w watching) Unsubscribe(context.Context, string) error {
	w.note("unsubscribe")
	return nil
}

func TestSubscriptionsBelongToTheirSessions(t *testing.T) {
	t.Parallel()
	f := serve(t, direct(t))
	f.shelve("docs")
	offer := func(s *telling) {
		f.library.Set("docs", catalog.Offer{Resources: []source.Resource{{URI: "doc://a", Name: "a"}}, Source: watching{telling: s}})
	}
	becomes := func(s *telling, want string) {
		t.Helper()
		for range 500 {
			if s.seen() == want {
				return
			}
			time.Sleep(10 * time.Millisecond)
		}
		t.Errorf("the source was asked %q, want %q", s.seen(), want)
	}
	old := &telling{}
	offer(old)
	ann, bob := f.connect(legacy, nil), f.connect(legacy, nil)
	a := &mcp.SubscribeParams{URI: "doc://a"}
	for range 2 { // the second is no further one
		if err := ann.Subscribe(t.Context(), a); err != nil {
			t.Fatal(err)
		}
	}
	becomes(old, "subscribe")
	if err := bob.Unsubscribe(t.Context(), &mcp.UnsubscribeParams{URI: "doc://a"}); err != nil {
		t.Fatal(err)
	}
	becomes(old, "subscribe") // bob had none
	anew := &telling{}
	offer(anew) // as after a reload
	becomes(anew, "subscribe")
	if err := bob.Subscribe(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	if err := ann.Unsubscribe(t.Context(), &mcp.UnsubscribeParams{URI: "doc://a"}); err != nil {
		t.Fatal(err)
	}
	becomes(anew, "subscribe")
	bob.Close() // without a word
	becomes(anew, "subscribe unsubscribe")

	down := &telling{}
	down.fail.Store(true)
	offer(down)
	carl := f.connect(legacy, nil)
	if err := carl.Subscribe(t.Context(), a); err == nil {
		t.Error("a subscription that failed was confirmed")
	}
	down.fail.Store(false)
	if err := carl.Subscribe(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	becomes(down, "subscribe")
}

// Whoever is the first to ask waits for the sources that are still starting, whatever the
// request is.
func TestTheFirstRequestWaitsForSources(t *testing.T) {
	t.Parallel()
	for name, ask := range map[string]func(*fixture) error{
		"completion": func(f *fixture) error {
			_, err := f.connect(legacy, nil).Complete(t.Context(), &mcp.CompleteParams{Ref: &mcp.CompleteReference{Type: "ref/prompt", Name: "docs__hello"}})
			return err
		},
		"subscription": func(f *fixture) error {
			return f.connect(legacy, nil).Subscribe(t.Context(), &mcp.SubscribeParams{URI: "doc://a"})
		},
		"prompt": func(f *fixture) error {
			_, err := f.connect(legacy, nil).GetPrompt(t.Context(), &mcp.GetPromptParams{Name: "docs__hello"})
			return err
		},
	} {
		var f *fixture
		started := sync.OnceFunc(func() { f.shelve("docs") })
		f = serveWith(t, direct(t), approval.Options{}, func(o *mcpserver.Options) { o.Ready = func(context.Context) { started() } })
		if err := ask(f); err != nil {
			t.Errorf("the %s was refused: %v", name, err)
		}
	}
}
