package mcp_test

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/approval"
	mcpserver "github.com/toolroom/toolroom/internal/server/mcp"
	"github.com/toolroom/toolroom/source"
)

func TestAClosedStreamEndsTheCall(t *testing.T) {
	t.Parallel()
	f := serve(t, direct(t))
	began, ended := make(chan struct{}), make(chan struct{})
	f.add("slow:it", func(ctx context.Context, _ *source.Request) (*source.Output, error) {
		close(began)
		<-ctx.Done()
		close(ended)
		return nil, ctx.Err()
	})
	for _, capabilities := range []string{``, `"elicitation":{}`} {
		began, ended = make(chan struct{}), make(chan struct{})
		ctx, cancel := context.WithCancel(t.Context())
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, f.url, strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"slow__it","arguments":{},
			"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{`+capabilities+`}}}}`))
		if err != nil {
			t.Fatal(err)
		}
		for name, v := range map[string]string{"Content-Type": "application/json", "Accept": "application/json, text/event-stream", "MCP-Protocol-Version": modern, "Mcp-Method": "tools/call", "Mcp-Name": "slow__it"} {
			req.Header.Set(name, v)
		}
		gone := make(chan struct{})
		go func() {
			defer close(gone)
			if resp, err := http.DefaultClient.Do(req); err == nil {
				resp.Body.Close()
			}
		}()
		<-began
		cancel()
		<-gone
		<-ended
	}
}

func TestAnOldClientListensToOneStreamAndPostsToAnAddress(t *testing.T) {
	t.Parallel()
	f := serve(t, direct(t))
	client := mcp.NewClient(&mcp.Implementation{Name: "old", Version: "1"}, nil)
	s, err := client.Connect(t.Context(), &mcp.SSEClientTransport{Endpoint: f.url + "/sse"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if r, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: "echo__it", Arguments: map[string]any{"a": 1}}); err != nil || text(r) != `{"a":1}` {
		t.Errorf("got %v, %v", r, err)
	}
}

func TestTheAddressOfAnOldSessionIsGoodForItsOwnerAlone(t *testing.T) {
	t.Parallel()
	f := serve(t, direct(t))
	do := func(subject, method, path, body string) *http.Response {
		req, err := http.NewRequestWithContext(t.Context(), method, f.url+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set(subjectHeader, subject)
		req.Header.Set("Content-Type", "application/json")
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { resp.Body.Close() })
		return resp
	}
	stream := bufio.NewScanner(do("ada", http.MethodGet, "/sse", "").Body)
	address := ""
	for address == "" && stream.Scan() {
		address, _ = strings.CutPrefix(stream.Text(), "data: ")
		if !strings.HasPrefix(address, "/") {
			address = ""
		}
	}
	const ping = `{"jsonrpc":"2.0","id":1,"method":"ping"}`
	for _, c := range []struct {
		subject, path string
		status        int
	}{{"ada", address, http.StatusAccepted}, {"eve", address, http.StatusNotFound}, {"ada", "/sse?session=guessed", http.StatusNotFound}} {
		if resp := do(c.subject, http.MethodPost, c.path, ping); resp.StatusCode != c.status {
			t.Errorf("%s at %s got %s", c.subject, c.path, resp.Status)
		}
	}
}

func TestAClientOnStdioIsAskedInEitherEra(t *testing.T) {
	inEachEra(t, direct(t), func(t *testing.T, f *fixture, version string) {
		var runs atomic.Int64
		f.add("ask:it", asks(&runs))
		fromClient, toServer := io.Pipe()
		fromServer, toClient := io.Pipe()
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			f.server.Stdio(ctx, fromClient, toClient)
		}()
		defer func() { cancel(); <-ended }()
		client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, &mcp.ClientOptions{
			ElicitationHandler: func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
				return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"name": "ada"}}, nil
			},
		})
		s, err := client.Connect(t.Context(), &mcp.IOTransport{Reader: fromServer, Writer: toServer}, &mcp.ClientSessionOptions{ProtocolVersion: version})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		r, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: "ask__it"})
		if err != nil || text(r) != `{"name":"ada"}{"name":"ada"}` || runs.Load() != 1 {
			t.Errorf("got %v, %v after %d runs", r, err, runs.Load())
		}
	})
}

func TestARequestWithoutASessionIsToldToBeginOne(t *testing.T) {
	t.Parallel()
	f := serve(t, direct(t))
	for _, version := range []string{"2025-03-26", "2025-06-18", "2025-11-25"} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, f.url, strings.NewReader(`{"jsonrpc":"2.0","id":7,"method":"tools/list"}`))
		if err != nil {
			t.Fatal(err)
		}
		for name, v := range map[string]string{"Content-Type": "application/json", "Accept": "application/json, text/event-stream", "MCP-Protocol-Version": version} {
			req.Header.Set(name, v)
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		text, _ := io.ReadAll(res.Body)
		res.Body.Close()
		if res.StatusCode != http.StatusBadRequest || !strings.Contains(string(text), `"code":-32600`) || !strings.Contains(string(text), `"id":7`) || !strings.Contains(string(text), "send initialize first") {
			t.Errorf("%s: %s %s", version, res.Status, text)
		}
	}
}

// endingTokens takes all tokens to be valid until revoked is closed.
type endingTokens struct{ revoked chan struct{} }

func (e endingTokens) Check(context.Context, string) error {
	select {
	case <-e.revoked:
		return toolroom.Errorf(toolroom.CodeUnauthenticated, "the token was revoked")
	default:
		return nil
	}
}

func TestAStreamOfNotificationsEndsWithItsToken(t *testing.T) {
	t.Parallel()
	f := serveWith(t, direct(t), approval.Options{}, func(o *mcpserver.Options) { o.TokenPeriod = 10 * time.Millisecond })
	tokens := endingTokens{make(chan struct{})}
	f.runner.Tokens = tokens
	open := func(method, path, body string, headers map[string]string) *http.Response {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		t.Cleanup(cancel)
		req, err := http.NewRequestWithContext(ctx, method, f.url+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Accept", "application/json, text/event-stream")
		for name, v := range headers {
			req.Header.Set(name, v)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil || resp.StatusCode != http.StatusOK {
			t.Fatal(resp, err)
		}
		t.Cleanup(func() { resp.Body.Close() })
		return resp
	}
	session := open(http.MethodPost, "", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"a","version":"1"}}}`, nil).Header.Get("Mcp-Session-Id")
	listen := `{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true},
		"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`
	token := func(headers map[string]string) map[string]string { headers[tokenHeader] = "t1"; return headers }
	streams := map[string]*http.Response{
		"of a session":   open(http.MethodGet, "", "", token(map[string]string{"Mcp-Session-Id": session})),
		"of a request":   open(http.MethodPost, "", listen, token(map[string]string{"MCP-Protocol-Version": modern, "Mcp-Method": "subscriptions/listen"})),
		"of old clients": open(http.MethodGet, "/sse", "", token(map[string]string{})),
	}
	lasting := open(http.MethodGet, "/sse", "", nil) // of a caller without a token
	time.Sleep(50 * time.Millisecond)
	for name, stream := range streams {
		ended := make(chan error, 1)
		go func() {
			_, err := io.Copy(io.Discard, stream.Body)
			ended <- err
		}()
		select {
		case err := <-ended:
			t.Errorf("the stream %s ends while its token is valid: %v", name, err)
		case <-time.After(50 * time.Millisecond):
		}
		defer func() {
			if err := <-ended; err != nil {
				t.Errorf("the stream %s does not end with its token: %v", name, err)
			}
		}()
	}
	close(tokens.revoked)
	gone := make(chan error, 1)
	go func() {
		_, err := io.Copy(io.Discard, lasting.Body)
		gone <- err
	}()
	select {
	case err := <-gone:
		t.Errorf("the stream of a caller without a token ends: %v", err)
	case <-time.After(100 * time.Millisecond):
	}
}
