package mcp_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/source"
)

// send posts a message of 2025-11-25, or with a version in the header of that.
func (f *fixture) send(t *testing.T, session, body string, headers ...string) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, f.url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	if session != "" {
		req.Header.Set("Mcp-Session-Id", session)
	}
	for i := 0; i < len(headers); i += 2 {
		if name, more := strings.CutPrefix(headers[i], "+"); more { // beside what is there
			req.Header.Add(name, headers[i+1])
		} else {
			req.Header.Set(name, headers[i+1])
		}
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(answer)
}

// session begins a session of 2025-11-25.
func (f *fixture) session(t *testing.T) string {
	t.Helper()
	begun, _ := f.send(t, "", `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`)
	id := begun.Header.Get("Mcp-Session-Id")
	f.send(t, id, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	return id
}

func TestWhatACallTellsReachesTheClientBeforeItsAnswer(t *testing.T) {
	t.Parallel()
	f := serve(t, direct(t))
	f.add("quiet:it", value(`{"n":9007199254740993}`))
	f.add("loud:it", func(_ context.Context, req *source.Request) (*source.Output, error) {
		req.Emit(toolroom.Event{Kind: toolroom.EventProgress, Progress: &toolroom.Progress{Done: 1, Total: 2, Message: "half"}})
		return &source.Output{Value: []byte(`"done"`)}, nil
	})
	id := f.session(t)
	for _, c := range []struct {
		tool, kind string
		has        []string
	}{
		{"quiet__it", "application/json", []string{`"jsonrpc":"2.0"`, `"id":"é-7"`, `"n":9007199254740993`}},
		{"loud__it", "text/event-stream", []string{`"progressToken":9007199254740993`, `"half"`, `"done"`, `"id":"é-7"`}},
	} {
		for era, more := range map[string]string{"session": "", "modern": `"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},`} {
			session, headers := id, []string(nil)
			if more != "" {
				session, headers = "", []string{"MCP-Protocol-Version", modern, "Mcp-Method", "tools/call", "Mcp-Name", c.tool}
			}
			resp, answer := f.send(t, session, `{"jsonrpc":"2.0","id":"é-7","method":"tools/call","params":{"name":"`+c.tool+`","arguments":{},"_meta":{`+more+`"progressToken":9007199254740993}}}`, headers...)
			// On a slow machine a silent call may have become a stream as well.
			if kind := resp.Header.Get("Content-Type"); kind != c.kind && kind != "text/event-stream" {
				t.Errorf("%s, %s: the answer is %s: %s", c.tool, era, kind, answer)
			}
			for _, has := range c.has {
				if !strings.Contains(answer, has) {
					t.Errorf("%s, %s: the answer lacks %s: %s", c.tool, era, has, answer)
				}
			}
		}
	}
}

func TestACallOfASessionEndsWhenItsClientCancelsIt(t *testing.T) {
	t.Parallel()
	f := serve(t, direct(t))
	began, ended := make(chan struct{}), make(chan struct{})
	f.add("slow:it", func(ctx context.Context, _ *source.Request) (*source.Output, error) {
		close(began)
		<-ctx.Done()
		close(ended)
		return nil, ctx.Err()
	})
	id := f.session(t)
	ctx, hangUp := context.WithCancel(t.Context())
	defer hangUp()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, f.url, strings.NewReader(`{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"slow__it","arguments":{}}}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header = http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}, "Mcp-Session-Id": {id}}
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		if resp, err := http.DefaultClient.Do(req); err == nil {
			resp.Body.Close()
		}
	}()
	<-began
	f.send(t, id, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":5}}`)
	<-ended
	hangUp()
	<-gone
}

func TestWhatHeadersAndBodyDoNotAgreeOnIsNotServed(t *testing.T) {
	t.Parallel()
	f := serve(t, direct(t))
	f.add("open:it", value(`"served"`))
	const meta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}`
	good := []string{"MCP-Protocol-Version", modern, "Mcp-Method", "tools/call", "Mcp-Name", "open__it"}
	call := func(params string) string {
		return `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{` + params + `}}`
	}
	if _, answer := f.send(t, "", call(`"name":"open__it",`+meta), good...); !strings.Contains(answer, "served") {
		t.Fatalf("the good request got %s", answer)
	}
	for name, c := range map[string]struct {
		body    string
		headers []string
	}{
		"another name":          {call(`"name":"open__it",` + meta), append(good[:4:4], "Mcp-Name", "other")},
		"a second name":         {call(`"name":"open__it",` + meta), append(good[:6:6], "+Mcp-Name", "other")},
		"a second revision":     {call(`"name":"open__it",` + meta), append(good[:6:6], "+MCP-Protocol-Version", "2025-11-25")},
		"another method":        {call(`"name":"open__it",` + meta), append(good[:2:2], "Mcp-Method", "tools/list", "Mcp-Name", "open__it")},
		"no capabilities":       {call(`"name":"open__it","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}`), good},
		"another revision":      {call(`"name":"open__it",` + strings.Replace(meta, "2026-07-28", "2026-07-29", 1)), good},
		"arguments of a list":   {call(`"name":"open__it","arguments":[],` + meta), good},
		"another content":       {call(`"name":"open__it",` + meta), append(good[:6:6], "Content-Type", "text/plain")},
		"one who takes no text": {call(`"name":"open__it",` + meta), append(good[:6:6], "Accept", "text/event-stream")},
		"the older revision":    {call(`"name":"open__it",` + meta), append(good[:6:6], "Mcp-Protocol-Version", "2025-11-25")},
	} {
		if _, answer := f.send(t, "", c.body, c.headers...); strings.Contains(answer, "served") {
			t.Errorf("%s: it was served: %s", name, answer)
		}
	}
}
