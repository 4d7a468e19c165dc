package mcp_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/toolroom/toolroom/mcp"
)

// testServer is a server whose methods do what a test wants of them.
type testServer struct {
	*mcp.Server
	url       string
	cancelled chan error // causes of the ends of requests of tools/wait
	asked     chan struct{}
	unsubs    chan string
	release   chan struct{}
}

func newTestServer(t *testing.T, change ...func(*mcp.ServerOptions)) *testServer {
	t.Helper()
	d := &testServer{cancelled: make(chan error, 10), asked: make(chan struct{}, 10), unsubs: make(chan string, 10), release: make(chan struct{}, 10)}
	o := mcp.ServerOptions{
		Name: "desk", Version: "1",
		Capabilities: json.RawMessage(`{"tools":{"listChanged":true},"resources":{"subscribe":true},"logging":{}}`),
		Handle:       d.handle,
		Subscribe: func(_ context.Context, _ *mcp.ServerRequest, uri string) (func(), error) {
			return func() { d.unsubs <- uri }, nil
		},
	}
	for _, do := range change {
		do(&o)
	}
	s, err := mcp.NewServer(o)
	if err != nil {
		t.Fatal(err)
	}
	d.Server = s
	mux := http.NewServeMux()
	mux.Handle("/mcp", s.HTTP())
	mux.Handle("/sse", s.SSE())
	web := httptest.NewServer(mux)
	d.url = web.URL
	t.Cleanup(func() { s.Close(); web.CloseClientConnections(); web.Close() })
	return d
}

func (d *testServer) handle(ctx context.Context, r *mcp.ServerRequest) (json.RawMessage, error) {
	switch r.Method {
	case "tools/list":
		return json.RawMessage(`{"tools":[{"name":"echo","inputSchema":{"type":"object"}}],"ttlMs":0,"cacheScope":"private"}`), nil
	case "tools/call":
	default:
		return nil, mcp.MethodNotFound(r.Method)
	}
	switch r.Name {
	case "echo":
		text, _ := json.Marshal(string(r.Arguments))
		return json.RawMessage(`{"content":[{"type":"text","text":` + string(text) + `}]}`), nil
	case "wait":
		d.asked <- struct{}{}
		<-ctx.Done()
		d.cancelled <- context.Cause(ctx)
		return nil, ctx.Err()
	case "steps":
		for i := range 3 {
			if err := r.Notify("notifications/progress", json.RawMessage(fmt.Sprintf(`{"progressToken":%s,"progress":%d}`, r.ProgressToken, i))); err != nil {
				return nil, err
			}
		}
		return json.RawMessage(`{"content":[]}`), nil
	case "ask":
		answer, err := r.Ask(ctx, mcp.Question{Method: "elicitation/create", Params: json.RawMessage(`{"message":"?","big":12345678901234567890}`)})
		if err != nil {
			return nil, err
		}
		return json.RawMessage(`{"content":[],"answer":` + string(answer) + `}`), nil
	case "spaced":
		return json.RawMessage("{\n\t\"content\": [],\r\n\t\"spaced\": true}"), r.Notify("notifications/x", nil)
	case "held":
		r.Release(1000)
		<-d.release
		return json.RawMessage(`{"content":[],"held":true}`), nil
	case "panic":
		panic("oops")
	}
	return nil, &mcp.Error{Code: -32602, Message: "no tool " + r.Name, Data: json.RawMessage(`{"x":1}`)}
}

// connect connects with our own client: over http, sse or stdio, old or not.
func (d *testServer) connect(t *testing.T, transport string, legacy bool, h mcp.ClientHandler) *mcp.Client {
	t.Helper()
	o := mcp.ClientOptions{Name: "test", Handler: h, Legacy: legacy, Capabilities: json.RawMessage(`{"elicitation":{}}`)}
	var via mcp.Transport
	switch transport {
	case "http":
		via = mcp.HTTP(d.url+"/mcp", http.DefaultClient)
	case "sse":
		via = mcp.HTTP(d.url+"/sse", http.DefaultClient)
	default:
		in, toServer := io.Pipe()
		fromServer, out := io.Pipe()
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_ = d.Stdio(t.Context(), in, out)
			out.Close()
		}()
		via = mcp.Stdio(mcp.Pipes{In: mcp.NewLines(fromServer, io.Discard), Out: toServer, Stop: func() { toServer.Close(); <-ended }})
	}
	c, err := mcp.Connect(t.Context(), via, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func tool(name string, more ...mcp.Field) *mcp.Request {
	return &mcp.Request{Method: "tools/call", Name: name, Params: append([]mcp.Field{mcp.String("name", name)}, more...)}
}

func onEach(t *testing.T, test func(t *testing.T, transport string, legacy bool)) {
	t.Parallel()
	for _, transport := range []string{"http", "stdio", "sse"} {
		for _, legacy := range []bool{false, true} {
			if transport == "sse" && !legacy {
				continue // it has no newer revision
			}
			t.Run(fmt.Sprintf("%s legacy %t", transport, legacy), func(t *testing.T) {
				t.Parallel()
				test(t, transport, legacy)
			})
		}
	}
}

func TestACallGetsItsResultProgressAndErrors(t *testing.T) {
	onEach(t, func(t *testing.T, transport string, legacy bool) {
		d := newTestServer(t)
		var mu sync.Mutex
		var heard []string
		c := d.connect(t, transport, legacy, mcp.ClientHandler{Notified: func(owner any, method string, params json.RawMessage) {
			mu.Lock()
			defer mu.Unlock()
			if owner == "mine" {
				heard = append(heard, method)
			}
		}})
		if want := legacy; c.Server().Modern() == want {
			t.Errorf("the revision is %s", c.Server().Version)
		}
		got, err := c.Call(t.Context(), tool("echo", mcp.Field{Name: "arguments", Value: json.RawMessage(`{"n":12345678901234567890}`)}))
		if err != nil || !strings.Contains(string(got), `{\"n\":12345678901234567890}`) || strings.Contains(string(got), "resultType") == legacy {
			t.Errorf("echo gave %s, %v", got, err)
		}
		steps := tool("steps")
		steps.Owner = "mine"
		if _, err := c.Call(t.Context(), steps); err != nil {
			t.Error(err)
		}
		mu.Lock()
		if len(heard) != 3 {
			t.Errorf("the client heard %v", heard)
		}
		mu.Unlock()
		if got, err := c.Call(t.Context(), tool("spaced")); err != nil || !strings.Contains(string(got), "spaced") {
			t.Errorf("a result of several lines: %s, %v", got, err)
		}
		failed := (*mcp.Error)(nil)
		if _, err := c.Call(t.Context(), tool("nothing")); !errors.As(err, &failed) || failed.Code != -32602 || string(failed.Data) != `{"x":1}` {
			t.Errorf("an unknown tool: %v", err)
		}
		if _, err := c.Call(t.Context(), &mcp.Request{Method: "no/such"}); !errors.As(err, &failed) || failed.Code != mcp.CodeMethodNotFound {
			t.Errorf("an unknown method: %v", err)
		}
		if _, err := c.Call(t.Context(), tool("panic")); !errors.As(err, &failed) || failed.Code != mcp.CodeInternal {
			t.Errorf("a panic: %v", err)
		}
		if err := c.Ping(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func TestACancelledRequestEndsWithTheClientsReason(t *testing.T) {
	onEach(t, func(t *testing.T, transport string, legacy bool) {
		d := newTestServer(t)
		c := d.connect(t, transport, legacy, mcp.ClientHandler{})
		ctx, cancel := context.WithCancelCause(t.Context())
		ended := make(chan error, 1)
		go func() { _, err := c.Call(ctx, tool("wait")); ended <- err }()
		<-d.asked
		cancel(&mcp.Cancelled{Params: json.RawMessage(`{"requestId":1,"reason":"no longer","x":1}`)})
		<-ended
		cause := <-d.cancelled
		said := (*mcp.Cancelled)(nil)
		if transport == "http" && !legacy { // the stream was closed
			return
		}
		if !errors.As(cause, &said) || !strings.Contains(string(said.Params), `"x":1`) || said.Error() != "no longer" {
			t.Errorf("the cause is %v", cause)
		}
	})
}

func TestAClientWithASessionIsAsked(t *testing.T) {
	onEach(t, func(t *testing.T, transport string, legacy bool) {
		d := newTestServer(t)
		c := d.connect(t, transport, legacy, mcp.ClientHandler{Asked: func(_ context.Context, owner any, q mcp.Question) (json.RawMessage, error) {
			if !strings.Contains(string(q.Params), "12345678901234567890") {
				return nil, errors.New("changed: " + string(q.Params))
			}
			return json.RawMessage(`{"action":"accept","more":12345678901234567890}`), nil
		}})
		got, err := c.Call(t.Context(), tool("ask"))
		if legacy != (err == nil) || legacy && !strings.Contains(string(got), `"answer":{"action":"accept","more":12345678901234567890}`) {
			t.Errorf("got %s, %v", got, err)
		}
	})
}

func TestChangesReachThoseWhoListen(t *testing.T) {
	onEach(t, func(t *testing.T, transport string, legacy bool) {
		d := newTestServer(t)
		heard := make(chan string, 100)
		c := d.connect(t, transport, legacy, mcp.ClientHandler{Notified: func(_ any, method string, params json.RawMessage) {
			heard <- method + string(params)
		}})
		want := func(method string, again func()) {
			t.Helper()
			again()
			for {
				select {
				case got := <-heard:
					if strings.HasPrefix(got, method) {
						return
					}
				case <-time.After(200 * time.Millisecond):
					again() // the stream opens beside the session
				}
			}
		}
		want("notifications/tools/list_changed", func() { d.ListChanged("tools") })
		if legacy {
			if _, err := c.Call(t.Context(), &mcp.Request{Method: "resources/subscribe", Params: []mcp.Field{mcp.String("uri", "doc://a")}}); err != nil {
				t.Fatal(err)
			}
		} else if err := c.Watch(t.Context(), []string{"doc://a"}); err != nil {
			t.Fatal(err)
		}
		d.ResourceUpdated("doc://b", nil)
		want("notifications/resources/updated", func() { d.ResourceUpdated("doc://a", json.RawMessage(`{"uri":"doc://a","x":1}`)) })
		c.Close()
		if uri := <-d.unsubs; uri != "doc://a" {
			t.Errorf("unsubscribed from %s", uri)
		}
	})
}

// post makes a request of a session.
func (d *testServer) post(t *testing.T, session, body string, header ...string) (*http.Response, string) {
	t.Helper()
	resp := d.do(t, http.MethodPost, session, body, header...)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(text)
}

func (d *testServer) do(t *testing.T, method, session, body string, header ...string) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, d.url+"/mcp", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	if session != "" {
		req.Header.Set("Mcp-Session-Id", session)
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Add(header[i], header[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	return resp
}

func (d *testServer) begin(t *testing.T, version string) string {
	t.Helper()
	resp, text := d.post(t, "", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"`+version+`","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`)
	session := resp.Header.Get("Mcp-Session-Id")
	if session == "" || !strings.Contains(text, version) {
		t.Fatalf("no session: %s %s", resp.Status, text)
	}
	return session
}

func TestAClientResumesAStreamThatTheServerReleased(t *testing.T) {
	t.Parallel()
	d := newTestServer(t, func(o *mcp.ServerOptions) {
		o.Streams = func(_, version string) bool { return version == "2025-11-25" }
	})
	session := d.begin(t, "2025-11-25")
	_, text := d.post(t, session, `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"held"}}`)
	if !strings.Contains(text, "event: prime\nid: ") || !strings.Contains(text, "retry: 1000") || strings.Contains(text, "held") {
		t.Fatalf("the stream was %q", text)
	}
	_, id, _ := strings.Cut(text, "id: ")
	id, _, _ = strings.Cut(id, "\n")
	resp := d.do(t, http.MethodGet, session, "", "Last-Event-ID", id)
	defer resp.Body.Close()
	d.release <- struct{}{}
	rest, _ := io.ReadAll(resp.Body)
	if !strings.Contains(string(rest), `"held":true`) {
		t.Errorf("the rest was %q", rest)
	}
	again := d.do(t, http.MethodGet, session, "", "Last-Event-ID", id)
	defer again.Body.Close()
	if rest, _ := io.ReadAll(again.Body); !strings.Contains(string(rest), `"held":true`) {
		t.Errorf("the second time the rest was %q", rest)
	}
}

func TestARequestThatCannotBeServedIsRefused(t *testing.T) {
	t.Parallel()
	d := newTestServer(t)
	const meta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}`
	session := d.begin(t, "2025-06-18")
	for name, c := range map[string]struct {
		session, body string
		header        []string
		status        int
		want          string
	}{
		"no header of the method":       {"", `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{` + meta + `}}`, []string{"MCP-Protocol-Version", "2026-07-28"}, 400, "-32020"},
		"another name":                  {"", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a",` + meta + `}}`, []string{"MCP-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/call", "Mcp-Name", "b"}, 400, "-32020"},
		"a header twice":                {"", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a",` + meta + `}}`, []string{"MCP-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/call", "Mcp-Name", "a", "Mcp-Name", "b"}, 400, "-32020"},
		"no capabilities":               {"", `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}`, []string{"MCP-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/list"}, 400, "-32602"},
		"another revision":              {"", `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2027-01-01","io.modelcontextprotocol/clientCapabilities":{}}}}`, []string{"MCP-Protocol-Version", "2027-01-01", "Mcp-Method", "tools/list"}, 400, "-32022"},
		"an unknown method":             {"", `{"jsonrpc":"2.0","id":1,"method":"no/such","params":{` + meta + `}}`, []string{"MCP-Protocol-Version", "2026-07-28", "Mcp-Method", "no/such"}, 404, "-32601"},
		"a method that was removed":     {"", `{"jsonrpc":"2.0","id":1,"method":"ping","params":{` + meta + `}}`, []string{"MCP-Protocol-Version", "2026-07-28", "Mcp-Method", "ping"}, 404, "-32601"},
		"no session":                    {"", `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, nil, 400, "send initialize first"},
		"somebody's session":            {"guessed", `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, nil, 404, "initialize again"},
		"a name twice":                  {session, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","name":"b"}}`, nil, 400, "-32700"},
		"a name in another case":        {session, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","Name":"b"}}`, nil, 400, "-32700"},
		"text after the end":            {session, `{"jsonrpc":"2.0","id":1,"method":"ping"}{}`, nil, 400, "-32700"},
		"no message":                    {session, `{"jsonrpc":"2.0","id":1}`, nil, 400, "-32600"},
		"a batch of a revision without": {session, `[{"jsonrpc":"2.0","id":1,"method":"ping"}]`, nil, 400, "-32600"},
		"an unknown revision":           {session, `{"jsonrpc":"2.0","id":1,"method":"ping"}`, []string{"MCP-Protocol-Version", "2020-01-01"}, 400, "Unsupported"},
	} {
		t.Run(name, func(t *testing.T) {
			if resp, text := d.post(t, c.session, c.body, c.header...); resp.StatusCode != c.status || !strings.Contains(text, c.want) {
				t.Errorf("got %s %s", resp.Status, text)
			}
		})
	}
}

// A new session over the limit ends the one that has been idle longest, and never one in use.
func TestASessionOverTheLimitEndsTheIdlest(t *testing.T) {
	t.Parallel()
	d := newTestServer(t, func(o *mcp.ServerOptions) { o.MaxSessions = 2 })
	const ping = `{"jsonrpc":"2.0","id":1,"method":"ping"}`
	listening := d.begin(t, "2025-06-18")
	stream := d.do(t, http.MethodGet, listening, "")
	defer stream.Body.Close()
	idle := d.begin(t, "2025-06-18")
	third := d.begin(t, "2025-06-18")
	for session, want := range map[string]int{listening: http.StatusOK, idle: http.StatusNotFound, third: http.StatusOK} {
		if resp, text := d.post(t, session, ping); resp.StatusCode != want {
			t.Errorf("got %s %s, want %d", resp.Status, text, want)
		}
	}
	another := d.do(t, http.MethodGet, third, "")
	defer another.Body.Close()
	if resp, text := d.post(t, "", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{}}}`); resp.StatusCode != http.StatusTooManyRequests {
		t.Errorf("all are in use: %s %s", resp.Status, text)
	}
	if resp := d.do(t, http.MethodDelete, third, ""); resp.StatusCode != http.StatusNoContent {
		t.Errorf("DELETE: %s", resp.Status)
	}
	d.begin(t, "2025-06-18")
}

// Revision 2026-07-28 has no requests to clients, so there is nothing to answer.
func TestAnAnswerOfAModernClientIsTakenIn(t *testing.T) {
	t.Parallel()
	d := newTestServer(t)
	resp, text := d.post(t, "", `{"jsonrpc":"2.0","id":1,"result":{}}`, "MCP-Protocol-Version", "2026-07-28")
	if resp.StatusCode != http.StatusAccepted || text != "" {
		t.Errorf("%s %s", resp.Status, text)
	}
}

func TestASessionIsGoodForItsOwnerAlone(t *testing.T) {
	t.Parallel()
	type key struct{}
	d := newTestServer(t, func(o *mcp.ServerOptions) {
		o.Owner = func(ctx context.Context) string { who, _ := ctx.Value(key{}).(string); return who }
	})
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		d.HTTP().ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), key{}, r.Header.Get("Who"))))
	}))
	defer h.Close()
	d.url = h.URL
	resp, _ := d.post(t, "", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{}}}`, "Who", "ann")
	session := resp.Header.Get("Mcp-Session-Id")
	for who, status := range map[string]int{"ann": 200, "eve": 404} {
		if resp, _ := d.post(t, session, `{"jsonrpc":"2.0","id":2,"method":"ping"}`, "Who", who); resp.StatusCode != status {
			t.Errorf("%s got %s", who, resp.Status)
		}
	}
}

func TestABatchIsAnsweredInItsRevision(t *testing.T) {
	t.Parallel()
	d := newTestServer(t)
	session := d.begin(t, "2025-03-26")
	_, text := d.post(t, session, `[{"jsonrpc":"2.0","id":"a","method":"ping"},{"jsonrpc":"2.0","method":"notifications/initialized"},{"jsonrpc":"2.0","id":"b","method":"tools/call","params":{"name":"echo"}}]`)
	if strings.Count(text, "event: message") != 2 || !strings.Contains(text, `"id":"a"`) || !strings.Contains(text, `"id":"b"`) {
		t.Errorf("over HTTP: %s", text)
	}
	in, toServer := io.Pipe()
	fromServer, out := io.Pipe()
	ended := make(chan struct{})
	go func() { defer close(ended); _ = d.Stdio(t.Context(), in, out) }()
	lines := bufio.NewScanner(fromServer)
	for _, c := range []struct{ send, want string }{
		{`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-03-26","capabilities":{}}}`, `"id":1,"result"`},
		{`[{"jsonrpc":"2.0","id":2,"method":"ping"}]`, `[{"jsonrpc":"2.0","id":2,"result":{}}]`},
		{`[1,{"jsonrpc":"2.0","id":2,"method":"ping"}]`, `is no message of JSON-RPC"}},{"jsonrpc":"2.0","id":2,"result":{}}]`},
		{`[]`, `{"jsonrpc":"2.0","id":null,"error":{"code":-32600`},
		{`{"jsonrpc":"2.0","id":3,"id":4,"method":"ping"}`, `-32700`},
		{`[{"jsonrpc":"2.0","id":3,"id":4,"method":"ping"}]`, `-32700`},
		{`{"id":5,"method":"ping"}`, `"code":-32600`},
	} {
		if _, err := io.WriteString(toServer, c.send+"\n"); err != nil {
			t.Fatal(err)
		}
		if !lines.Scan() || !strings.Contains(lines.Text(), c.want) {
			t.Errorf("%s was answered %s", c.send, lines.Text())
		}
	}
	toServer.Close()
	<-ended
}

func TestTheOfficialSDKIsServedInEachRevision(t *testing.T) {
	t.Parallel()
	d := newTestServer(t)
	for _, version := range []string{"2026-07-28", "2025-11-25", "2025-06-18", "2025-03-26"} {
		heard := make(chan struct{}, 10)
		client := sdk.NewClient(&sdk.Implementation{Name: "sdk", Version: "1"}, &sdk.ClientOptions{
			ProgressNotificationHandler: func(context.Context, *sdk.ProgressNotificationClientRequest) { heard <- struct{}{} },
		})
		s, err := client.Connect(t.Context(), &sdk.StreamableClientTransport{Endpoint: d.url + "/mcp"}, &sdk.ClientSessionOptions{ProtocolVersion: version})
		if err != nil {
			t.Fatalf("%s: %v", version, err)
		}
		if got := s.InitializeResult().ProtocolVersion; got != version {
			t.Errorf("the revision is %s, want %s", got, version)
		}
		steps := &sdk.CallToolParams{Name: "steps"}
		steps.SetProgressToken("p")
		if _, err := s.CallTool(t.Context(), steps); err != nil {
			t.Errorf("%s: %v", version, err)
		}
		for range 3 {
			<-heard
		}
		if list, err := s.ListTools(t.Context(), nil); err != nil || len(list.Tools) != 1 {
			t.Errorf("%s: %v, %v", version, list, err)
		}
		s.Close()
	}
}
