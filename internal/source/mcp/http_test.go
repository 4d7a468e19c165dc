package mcp_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/oauth"
	"github.com/toolroom/toolroom/internal/source/mcp"
	"github.com/toolroom/toolroom/source"
)

// remote is a server over HTTP, written by hand so that it can do what one built
// on an SDK would not. How says what it does with a call.
type remote struct {
	*httptest.Server
	modern    atomic.Bool
	how       atomic.Value // string
	offers    atomic.Value // string: its capabilities
	mu        sync.Mutex
	sessions  map[string]bool
	starts    atomic.Int64 // handshakes
	calls     atomic.Int64 // tools/call that it began with
	cancelled atomic.Int64 // tasks/cancel
	headers   http.Header  // of the last call
	body      string       // of the last call
	looks     atomic.Int64 // tasks/get
	able      []string     // what the client of each session can do
}

func (r *remote) told() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.able
}

func newRemote(t *testing.T, modern bool) *remote {
	r := &remote{sessions: map[string]bool{}}
	r.modern.Store(modern)
	r.how.Store("")
	r.offers.Store(`{"tools":{}}`)
	r.Server = httptest.NewServer(http.HandlerFunc(r.serve))
	t.Cleanup(func() {
		r.CloseClientConnections()
		r.Close()
	})
	return r
}

const oddTool = `{"name":"odd","inputSchema":{"type":"object","properties":{"z":{"type":"integer","default":9007199254740993,"x-unknown":[1]},"a":{"type":"string","x-mcp-header":"Region"}}},"_meta":{"k":{"deep":1}},"future":{"b":1,"a":2}}`

const oddResult = `{"content":[{"type":"hologram","beam":[1,2]},{"type":"text","text":"é<&>","annotations":{"x":1}}],"structuredContent":{"n":9007199254740993,"f":1.50},"_meta":{"m":[true]},"extra":{"z":1,"a":2}}`

func (r *remote) serve(w http.ResponseWriter, req *http.Request) {
	if req.Method != http.MethodPost {
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	body, _ := io.ReadAll(req.Body)
	var m struct {
		ID     json.RawMessage `json:"id"`
		Method string          `json:"method"`
		Params struct {
			Name string          `json:"name"`
			Able json.RawMessage `json:"capabilities"`
		} `json:"params"`
	}
	json.Unmarshal(body, &m)
	answer := func(result string) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, result)
	}
	refuse := func(status, code int, message string) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":%d,"message":%q,"data":{"big":9007199254740993,"x":[]}}}`, m.ID, code, message)
	}
	if m.ID == nil {
		w.WriteHeader(http.StatusAccepted)
		return
	}
	if version := req.Header.Get("MCP-Protocol-Version"); r.modern.Load() && version != "2026-07-28" {
		refuse(http.StatusBadRequest, -32022, "unsupported protocol version")
		return
	}
	if !r.modern.Load() && m.Method != "initialize" && m.Method != "server/discover" {
		r.mu.Lock()
		known := r.sessions[req.Header.Get("Mcp-Session-Id")]
		r.mu.Unlock()
		if !known {
			w.WriteHeader(http.StatusNotFound)
			return
		}
	}
	switch m.Method {
	case "server/discover":
		if !r.modern.Load() {
			if r.how.Load() == "nameless" {
				m.ID = json.RawMessage("null") // as of servers that look for a session first
			}
			refuse(http.StatusBadRequest, -32601, "no such method")
			return
		}
		r.starts.Add(1)
		answer(`{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"ttlMs":0,"cacheScope":"private"}`)
	case "initialize":
		id := fmt.Sprint(r.starts.Add(1))
		r.mu.Lock()
		r.sessions[id] = true
		r.able = append(r.able, string(m.Params.Able))
		r.mu.Unlock()
		w.Header().Set("Mcp-Session-Id", id)
		answer(`{"protocolVersion":"2025-11-25","capabilities":` + r.offers.Load().(string) + `,"serverInfo":{"name":"odd","version":"1"}}`)
	case "tools/list":
		answer(`{"resultType":"complete","ttlMs":60000,"cacheScope":"private","tools":[` + oddTool + `,{"name":"bad","inputSchema":{"properties":{"a":{"type":"object","x-mcp-header":"A"}}}}]}`)
	case "tools/call":
		r.calls.Add(1)
		r.mu.Lock()
		r.headers, r.body = req.Header.Clone(), string(body)
		r.mu.Unlock()
		r.call(w, req, string(m.ID), answer, refuse)
	case "tasks/get":
		if r.looks.Add(1) < 3 || r.how.Load() == "endless task" {
			answer(`{"resultType":"complete","taskId":"t1","status":"working","pollIntervalMs":1}`)
			return
		}
		answer(`{"resultType":"complete","taskId":"t1","status":"completed","result":` + oddResult + `}`)
	case "tasks/cancel":
		r.cancelled.Add(1)
		answer(`{"resultType":"complete"}`)
	default:
		answer(`{}`)
	}
}

func (r *remote) call(w http.ResponseWriter, req *http.Request, id string, answer func(string), refuse func(int, int, string)) {
	stream := func() { w.Header().Set("Content-Type", "text/event-stream") }
	event := func(result string) {
		fmt.Fprintf(w, "event: message\r\ndata: {\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":%s}\r\n\r\n", id, result)
		w.(http.Flusher).Flush()
	}
	switch r.how.Load() {
	case "mid-body":
		w.Header().Set("Content-Length", "1000")
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, `{"jsonrpc":"2.0","id":`)
		panic(http.ErrAbortHandler)
	case "mid-stream":
		stream()
		io.WriteString(w, "data: {\"jsonrpc\":")
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	case "garbage":
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, "<html>")
	case "another type":
		w.Header().Set("Content-Type", "text/html")
		io.WriteString(w, "<html>")
	case "another id":
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, `{"jsonrpc":"2.0","id":99999,"result":{}}`)
	case "twice":
		stream()
		event(`{"content":[{"type":"text","text":"one"}]}`)
		event(`{"content":[{"type":"text","text":"two"}]}`)
	case "flood":
		stream()
		for range 2_000 {
			io.WriteString(w, "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":{\"level\":\"info\",\"data\":\"x\"}}\n\n")
		}
		event(oddResult)
	case "slow":
		<-req.Context().Done()
	case "unauthorised":
		w.WriteHeader(http.StatusUnauthorized)
	case "error":
		refuse(http.StatusOK, -32050, "not today")
	case "500":
		w.WriteHeader(http.StatusInternalServerError)
	case "task", "endless task":
		answer(`{"resultType":"task","taskId":"t1","status":"working","pollIntervalMs":1}`)
	default:
		answer(oddResult)
	}
}

func (r *remote) source(t *testing.T) *mcp.Source {
	s := mcp.New(mcp.Config{Namespace: "odd", URL: r.URL + "/mcp", StartTimeout: 10 * time.Second})
	t.Cleanup(func() { s.Close() })
	return s
}

var eras = map[string]bool{"modern": true, "legacy": false}

func TestWhatAServerOverHTTPSendsComesUpByteForByte(t *testing.T) {
	t.Parallel()
	for era, modern := range eras {
		t.Run(era, func(t *testing.T) {
			t.Parallel()
			r := newRemote(t, modern)
			s := r.source(t)
			tools, err := s.Tools(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if len(tools) != 1 || string(tools[0].Raw) != oddTool { // the one with a bad annotation is left out
				t.Errorf("the tools came as %s", tools[0].Raw)
			}
			out, err := call(t.Context(), s, "odd", nil)
			if err != nil {
				t.Fatal(err)
			}
			if string(out.Raw) != oddResult {
				t.Errorf("the result came as %s", out.Raw)
			}
			if !strings.Contains(r.body, `"arguments":{"v":12345678901234567890}`) {
				t.Errorf("the arguments went as %s", r.body)
			}
			r.how.Store("error")
			_, err = call(t.Context(), s, "odd", nil)
			var e *toolroom.Error
			if toolroom.CodeOf(err) != toolroom.CodeUpstreamError || !asError(err, &e) {
				t.Fatalf("got %v", err)
			}
			if data := e.RPC.Data; string(data) != `{"big":9007199254740993,"x":[]}` {
				t.Errorf("the error's data came as %s", data)
			}
		})
	}
}

func asError(err error, e **toolroom.Error) bool {
	ours, ok := err.(*toolroom.Error)
	*e = ours
	return ok
}

func TestArgumentsGoIntoHeadersWhereAModernServerWantsThem(t *testing.T) {
	t.Parallel()
	r := newRemote(t, true)
	s := r.source(t)
	_, err := s.Call(t.Context(), &source.Request{
		Tool: toolroom.ID{Namespace: "odd", Name: "odd"}, Arguments: json.RawMessage("{\n \"a\": \"Zürich\"}"),
		Emit: func(toolroom.Event) {},
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"Mcp-Method": "tools/call", "Mcp-Name": "odd", "Mcp-Protocol-Version": "2026-07-28", "Mcp-Param-Region": "=?base64?WsO8cmljaA==?=",
	} {
		if got := r.headers.Get(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
}

// TestNoFaultOutlivesItself lets a server do what servers do, and wants the very
// next call to work: as often as the fault is repeated.
func TestNoFaultOutlivesItself(t *testing.T) {
	t.Parallel()
	const times = 20
	for era, modern := range eras {
		for fault, want := range map[string]toolroom.Code{
			"mid-body":     toolroom.CodeUpstreamUnavailable,
			"mid-stream":   toolroom.CodeUpstreamUnavailable,
			"garbage":      toolroom.CodeUpstreamUnavailable,
			"another type": toolroom.CodeUpstreamUnavailable,
			"another id":   toolroom.CodeUpstreamUnavailable,
			"unauthorised": toolroom.CodeUpstreamUnavailable,
			"500":          toolroom.CodeUpstreamUnavailable,
			"slow":         toolroom.CodeTimeout,
			"twice":        "",
			"flood":        "",
		} {
			t.Run(era+" "+fault, func(t *testing.T) {
				t.Parallel()
				r := newRemote(t, modern)
				s := r.source(t)
				for i := range times {
					r.how.Store(fault)
					ctx, cancel := t.Context(), context.CancelFunc(func() {})
					if want == toolroom.CodeTimeout {
						ctx, cancel = context.WithTimeout(ctx, 20*time.Millisecond)
					}
					_, err := call(ctx, s, "odd", nil)
					cancel()
					if got := toolroom.CodeOf(err); got != want {
						t.Fatalf("fault %d: got %q (%v), want %q", i, got, err, want)
					}
					r.how.Store("")
					if _, err := call(t.Context(), s, "odd", nil); err != nil {
						t.Fatalf("the call after fault %d: %v", i, err)
					}
				}
				// One that times out may do so on its way.
				if n := r.calls.Load(); n > 2*times || n < 2*times && want != toolroom.CodeTimeout {
					t.Errorf("%d calls reached the server, want %d", n, 2*times)
				}
				t.Logf("%d faults, %d calls, %d handshakes", times, r.calls.Load(), r.starts.Load())
			})
		}
	}
}

func TestASessionThatTheServerForgotIsBegunAgainWithoutTheCallerNoticing(t *testing.T) {
	t.Parallel()
	r := newRemote(t, false)
	s := r.source(t)
	for range 10 {
		if _, err := call(t.Context(), s, "odd", nil); err != nil {
			t.Fatal(err)
		}
		r.mu.Lock()
		clear(r.sessions)
		r.mu.Unlock()
	}
	if calls, starts := r.calls.Load(), r.starts.Load(); calls != 10 || starts != 10 {
		t.Errorf("10 calls became %d, with %d sessions", calls, starts)
	}
}

func TestAServerThatComesBackInAnotherEraIsSpokenToInItsNewOne(t *testing.T) {
	t.Parallel()
	for era, modern := range eras {
		t.Run(era, func(t *testing.T) {
			t.Parallel()
			r := newRemote(t, modern)
			r.how.Store("nameless")
			s := r.source(t)
			for n := range 4 {
				if _, err := call(t.Context(), s, "odd", nil); err != nil {
					t.Fatalf("call %d: %v", n, err)
				}
				r.mu.Lock()
				clear(r.sessions)
				r.mu.Unlock()
				r.modern.Store(!r.modern.Load())
			}
			if calls, starts := r.calls.Load(), r.starts.Load(); calls != 4 || starts != 4 {
				t.Errorf("4 calls became %d, with %d handshakes", calls, starts)
			}
		})
	}
}

func TestCloseBesideFirstUsesLeavesNoConnection(t *testing.T) {
	t.Parallel()
	for range 20 {
		r := newRemote(t, false)
		s := mcp.New(mcp.Config{
			Namespace: "odd", URL: r.URL + "/mcp",
			Auth: func(string) *oauth.Client {
				return oauth.New(oauth.Config{Resource: r.URL + "/mcp"}, &loginStore{}, nil)
			},
		})
		use := func(i int) error {
			_, err := s.Call(t.Context(), &source.Request{
				Tool: toolroom.ID{Namespace: "odd", Name: "odd"}, Emit: func(toolroom.Event) {}, Ask: host{}, Identity: toolroom.Identity{Subject: fmt.Sprint("user", i)},
			})
			return err
		}
		var all sync.WaitGroup
		for i := range 30 {
			all.Go(func() { _ = use(i) }) // an error means that Close was faster
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		all.Wait()
		begun := r.starts.Load()
		for i := range 30 {
			if use(i) == nil {
				t.Error("a closed source was called")
			}
		}
		if n := r.starts.Load(); n != begun {
			t.Errorf("a closed source began %d sessions", n-begun)
		}
	}
}

func TestManyCallersShareOneHandshake(t *testing.T) {
	t.Parallel()
	r := newRemote(t, true)
	s := r.source(t)
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() {
			if _, err := call(t.Context(), s, "odd", nil); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if n := r.starts.Load(); n != 1 {
		t.Errorf("there were %d handshakes", n)
	}
}

func TestATaskIsFollowedToItsEndAndCancelledWithItsCall(t *testing.T) {
	t.Parallel()
	r := newRemote(t, true)
	s := r.source(t)
	r.how.Store("task")
	out, err := call(t.Context(), s, "odd", nil)
	if err != nil || string(out.Raw) != oddResult {
		t.Fatalf("got %v, %v", out, err)
	}
	r.how.Store("endless task")
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if _, err := call(ctx, s, "odd", nil); toolroom.CodeOf(err) != toolroom.CodeTimeout {
		t.Fatalf("got %v", err)
	}
	s.Close() // waits for what is under way
	if r.cancelled.Load() > 1 {
		t.Errorf("the task was cancelled %d times", r.cancelled.Load())
	}
}

func TestAServerThatRefusesTLSIsBrokenWithWhatToDo(t *testing.T) {
	t.Parallel()
	server := httptest.NewTLSServer(http.NotFoundHandler())
	defer server.Close()
	s := mcp.New(mcp.Config{Namespace: "odd", URL: server.URL + "/mcp"})
	defer s.Close()
	_, err := call(t.Context(), s, "odd", nil)
	d := s.Describe()
	if toolroom.CodeOf(err) != toolroom.CodeUpstreamUnavailable || d.State != "broken" || !strings.Contains(d.Reason, "certificate is not trusted") {
		t.Errorf("got %v; %+v", err, d)
	}
}

func TestAServerThatWantsALoginIsLeftAloneUntilThereIsOne(t *testing.T) {
	t.Parallel()
	var hits atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/mcp" {
			hits.Add(1)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		w.WriteHeader(http.StatusNotFound)
	}))
	defer server.Close()
	kept := &loginStore{}
	s := mcp.New(mcp.Config{
		Namespace: "odd", URL: server.URL + "/mcp",
		Auth: func(string) *oauth.Client { return oauth.New(oauth.Config{Resource: server.URL + "/mcp"}, kept, nil) },
	})
	defer s.Close()
	for range 20 {
		_, err := call(t.Context(), s, "odd", nil)
		var e *toolroom.Error
		if toolroom.CodeOf(err) != toolroom.CodeUnauthenticated || !asError(err, &e) || e.Hint != "a person logs in with: toolroom sources login odd" {
			t.Fatalf("got %v", err)
		}
	}
	if d := s.Describe(); d.State != "waiting for authorisation" || !strings.Contains(d.Reason, "toolroom sources login odd") {
		t.Errorf("the source says %+v", d)
	}
	if n := hits.Load(); n != 1 {
		t.Errorf("20 calls asked the server %d times", n)
	}
}

type loginStore struct {
	mu   sync.Mutex
	data []byte
}

// Lock does nothing: these tests have one client of a login at a time.
func (s *loginStore) Lock(context.Context) (func(), error) { return func() {}, nil }

func (s *loginStore) Load(context.Context) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.data, nil
}

func (s *loginStore) Save(_ context.Context, data []byte, _ []string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.data = data
	return nil
}

func (s *loginStore) Learn([]string) {}

func TestAServerThatIsSlowToAnswerIsNamedWithTheLimit(t *testing.T) {
	t.Parallel()
	silent, err := net.Listen("tcp", "127.0.0.1:0") // accepts, and says nothing
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	s := mcp.New(mcp.Config{Namespace: "odd", URL: "http://" + silent.Addr().String() + "/mcp", StartTimeout: 50 * time.Millisecond})
	defer s.Close()
	_, err = s.Tools(t.Context())
	failed := toolroom.AsError(err)
	if failed.Code != toolroom.CodeUpstreamUnavailable || !strings.Contains(failed.Message, "did not answer within 50ms") || !strings.Contains(failed.Hints(), "start_timeout") {
		t.Errorf("%s: %s; %s", failed.Code, failed.Message, failed.Hints())
	}
}
