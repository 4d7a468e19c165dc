package mcp_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/policy"
	mcpserver "github.com/toolroom/toolroom/internal/server/mcp"
	"github.com/toolroom/toolroom/source"
)

func patterns(t *testing.T, texts ...string) []policy.Pattern {
	t.Helper()
	all, err := policy.ParsePatterns(texts)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// A hidden tool is one that is not there: no answer differs from the one about a tool that
// does not exist.
func TestNothingTellsOfAHiddenTool(t *testing.T) {
	t.Parallel()
	expose := mcpserver.Exposure{Search: true, Hidden: patterns(t, "plans.*")}
	f := serve(t, expose)
	f.add("plans:secret_offer", value(`1`))
	s := f.connect(modern, nil)
	for _, name := range []string{"plans:secret_ofer", "plans", "secret_offer", "plans__secret_offer", "plans:none"} {
		_, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: name})
		if err == nil || strings.Contains(strings.ReplaceAll(err.Error(), name, ""), "secret_offer") {
			t.Errorf("a call of %s: %v", name, err)
		}
		r, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: "call_tool", Arguments: map[string]any{"tool": name}})
		if err == nil || strings.Contains(strings.ReplaceAll(err.Error(), name, ""), "secret_offer") {
			t.Errorf("call_tool of %s: %v, %v", name, r, err)
		}
		r, err = s.CallTool(t.Context(), &mcp.CallToolParams{Name: "describe_tools", Arguments: map[string]any{"tools": []string{name}}})
		if err != nil {
			t.Fatal(err)
		}
		got := strings.ReplaceAll(text(r), name, "")
		if strings.Contains(got, "secret_offer") || strings.Contains(got, "denied") || !strings.Contains(got, "there is no tool") {
			t.Errorf("describe_tools of %s: %s", name, text(r))
		}
	}
}

// A source that could not be listed when a request came may be there when the call runs.
func TestAHiddenToolIsHiddenAlsoIfItsSourceIsListedLate(t *testing.T) {
	t.Parallel()
	f := serve(t, mcpserver.Exposure{Hidden: patterns(t, "late.*")})
	var ran, listed atomic.Int64
	f.runner.Discover = func(context.Context, string) error {
		if listed.Add(1) == 1 {
			return toolroom.Errorf(toolroom.CodeUpstreamError, "the source does not start")
		}
		f.add("late:one", func(context.Context, *source.Request) (*source.Output, error) {
			ran.Add(1)
			return &source.Output{Value: []byte("1")}, nil
		})
		return nil
	}
	answer := f.post(t, "ann", "tools/call", "late__one", `"name":"late__one","arguments":{}`, "")
	if listed.Load() < 2 || ran.Load() > 0 {
		t.Errorf("the source was listed %d times, and a hidden tool ran %d times: %v", listed.Load(), ran.Load(), answer)
	}
}

func TestTheNearestToolsAreNamedAsTheyAreListed(t *testing.T) {
	t.Parallel()
	expose := direct(t)
	expose.Plain = true
	f := serve(t, expose)
	f.add("plans:offer", value(`1`))
	_, err := f.connect(modern, nil).CallTool(t.Context(), &mcp.CallToolParams{Name: "plans:ofer"})
	if err == nil || !strings.Contains(err.Error(), "did you mean offer?") {
		t.Errorf("got %v", err)
	}
}

// A client may cancel a call while its source is listed, which may take as long as starting a
// server. Then the call must not run.
func TestACallIsCancelledWhileItsSourceIsListed(t *testing.T) {
	t.Parallel()
	f := serve(t, direct(t))
	listing := make(chan struct{}, 1)
	var ran atomic.Int64
	f.runner.Discover = func(ctx context.Context, _ string) error {
		select {
		case listing <- struct{}{}:
		default:
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(5 * time.Second):
		}
		f.add("late:one", func(context.Context, *source.Request) (*source.Output, error) {
			ran.Add(1)
			return &source.Output{Value: []byte("1")}, nil
		})
		return nil
	}
	post := func(session, body string) *http.Response {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, f.url, strings.NewReader(body))
		if err != nil {
			t.Error(err)
			return nil
		}
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", "application/json, text/event-stream")
		if session != "" {
			r.Header.Set("Mcp-Session-Id", session)
		}
		response, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Error(err)
			return nil
		}
		t.Cleanup(func() { response.Body.Close() })
		return response
	}
	begun := post("", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"`+legacy+`","capabilities":{},"clientInfo":{"name":"a","version":"1"}}}`)
	if _, err := io.ReadAll(begun.Body); err != nil { // the session begins with the answer
		t.Fatal(err)
	}
	session := begun.Header.Get("Mcp-Session-Id")
	answered := make(chan string, 1)
	go func() {
		text, _ := io.ReadAll(post(session, `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"late__one","arguments":{}}}`).Body)
		answered <- string(text)
	}()
	select {
	case <-listing:
	case got := <-answered:
		t.Fatalf("the source was not listed: %s", got)
	}
	post(session, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}`)
	if got := <-answered; ran.Load() > 0 {
		t.Errorf("the call ran: %s", got)
	}
}
