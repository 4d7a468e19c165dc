package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// sender is a responder that records the methods of the sent messages. Before the first one it
// calls early.
type sender struct {
	early func()
	mu    sync.Mutex
	sent  []string
}

func (s *sender) send(text []byte) error {
	var m struct{ Method string }
	if err := json.Unmarshal(text, &m); err != nil {
		return err
	}
	if m.Method == "notifications/subscriptions/acknowledged" {
		s.early()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sent = append(s.sent, m.Method)
	return nil
}

func (s *sender) respond(_, _ []byte, _ *Error) {}

func (s *sender) release(int) {}

func (s *sender) all() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.sent)
}

// The specification says that nothing of a subscription precedes its acknowledgement.
func TestASubscriptionIsAcknowledgedBeforeAnyChange(t *testing.T) {
	t.Parallel()
	s, _ := plainServer(t, ServerOptions{Capabilities: json.RawMessage(`{"tools":{"listChanged":true}}`)})
	reply := &sender{early: func() { s.ListChanged("tools"); time.Sleep(20 * changeDelay) }}
	ctx, end := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		r := &ServerRequest{ID: json.RawMessage("1"), Params: json.RawMessage(`{"notifications":{"toolsListChanged":true}}`), responder: reply}
		if _, err := s.listen(ctx, r); err != nil {
			t.Error(err)
		}
	}()
	for len(reply.all()) < 2 {
		time.Sleep(time.Millisecond)
	}
	end()
	<-ended
	if got := reply.all(); got[0] != "notifications/subscriptions/acknowledged" || got[1] != "notifications/tools/list_changed" {
		t.Errorf("sent was %v", got)
	}
}

func TestARefusedInitializeLeavesNoSession(t *testing.T) {
	t.Parallel()
	s, url := plainServer(t, ServerOptions{MaxSessions: 1})
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(
		`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}`))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	r.Header.Set(versionHeader, legacyVersion)
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	if response.StatusCode != http.StatusBadRequest {
		t.Fatalf("the server answered %s", response.Status)
	}
	if n := s.sessions.Len(); n != 0 {
		t.Errorf("%d sessions are left", n)
	}
	if response, text := send(t, http.MethodPost, url, "", initialize); response.StatusCode != http.StatusOK {
		t.Errorf("the next initialize: %s %s", response.Status, text)
	}
}

func TestNothingFollowsTheAnswerOnAPipe(t *testing.T) {
	t.Parallel()
	handled := make(chan *ServerRequest, 1)
	s, err := NewServer(ServerOptions{Name: "x", Version: "1", Handle: func(_ context.Context, r *ServerRequest) (json.RawMessage, error) {
		handled <- r
		return json.RawMessage("{}"), nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	in, client := io.Pipe()
	answers, out := io.Pipe()
	served := make(chan error, 1)
	go func() { served <- s.Stdio(t.Context(), in, out); out.Close() }()
	for _, line := range []string{initialize, `{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"a"}}`} {
		go func() { _, _ = client.Write([]byte(line + "\n")) }()
		if _, err := answers.Read(make([]byte, 1000)); err != nil {
			t.Fatal(err)
		}
	}
	var rest []byte
	read := make(chan struct{})
	go func() { defer close(read); rest, _ = io.ReadAll(answers) }()
	if err := (<-handled).Notify("notifications/progress", json.RawMessage(`{"progressToken":1,"progress":1}`)); !errors.Is(err, errNotConnected) {
		t.Errorf("a notification after the answer: %v", err)
	}
	client.Close()
	if err := <-served; err != nil {
		t.Fatal(err)
	}
	if <-read; len(rest) > 0 {
		t.Errorf("the client got %s", rest)
	}
}

// A stream may end, with its session, before its first event.
func TestTheEventLogForgetsAStreamThatEndedEarly(t *testing.T) {
	t.Parallel()
	log := &eventLog{max: maxStored}
	all := newStreams(log)
	s := all.open()
	all.dropAll()
	s.sendPrimingEvent()
	if log.size != 0 {
		t.Errorf("the log counts %d bytes", log.size)
	}
}

// acknowledged is a ResponseWriter that calls then when the response begins.
type acknowledged struct {
	http.ResponseWriter
	then func()
}

func (a acknowledged) WriteHeader(status int) {
	a.ResponseWriter.WriteHeader(status)
	a.then()
}

// A client of HTTP+SSE may cancel a request as soon as it has been acknowledged.
func TestACancellationDoesNotOvertakeItsRequest(t *testing.T) {
	t.Parallel()
	cancelled := make(chan struct{})
	s, err := NewServer(ServerOptions{Name: "x", Version: "1", Handle: func(ctx context.Context, _ *ServerRequest) (json.RawMessage, error) {
		<-ctx.Done()
		close(cancelled)
		return nil, ctx.Err()
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	h := s.SSE()
	web := httptest.NewServer(h)
	defer web.Close()
	defer web.CloseClientConnections()
	opening, err := http.NewRequestWithContext(t.Context(), http.MethodGet, web.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	stream, err := http.DefaultClient.Do(opening)
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Body.Close()
	events := newEventStream(stream.Body)
	endpoint, err := events.next()
	if err != nil {
		t.Fatal(err)
	}
	post := func(body string, then func()) {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, string(endpoint.data), strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		h.ServeHTTP(acknowledged{httptest.NewRecorder(), then}, r)
	}
	post(initialize, func() {})
	post(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"a"}}`, func() {
		handled := make(chan struct{})
		go func() {
			defer close(handled)
			post(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}`, func() {})
		}()
		select {
		case <-handled:
		case <-time.After(50 * time.Millisecond): // it waits for the request
		}
	})
	select {
	case <-cancelled:
	case <-time.After(10 * time.Second):
		t.Error("the request was not cancelled")
	}
}
