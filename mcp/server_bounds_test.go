package mcp

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// plainServer returns a server whose handler answers everything with {}, and its URL.
func plainServer(t *testing.T, o ServerOptions) (*Server, string) {
	t.Helper()
	o.Name, o.Version = "x", "1"
	o.Handle = func(context.Context, *ServerRequest) (json.RawMessage, error) { return json.RawMessage("{}"), nil }
	s, err := NewServer(o)
	if err != nil {
		t.Fatal(err)
	}
	h := httptest.NewServer(s.HTTP())
	t.Cleanup(func() { h.Close(); s.Close() })
	return s, h.URL
}

func send(t *testing.T, method, url, session, body string) (*http.Response, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	if session != "" {
		r.Header.Set(sessionHeader, session)
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response, string(text)
}

const initialize = `{"jsonrpc":"2.0","id":2,"method":"initialize","params":{"protocolVersion":"2025-03-26","capabilities":{},"clientInfo":{"name":"a","version":"1"}}}`

func TestInitializeBehindAnotherMessageOfABatchIsRefused(t *testing.T) {
	t.Parallel()
	_, url := plainServer(t, ServerOptions{})
	for _, first := range []string{`{"jsonrpc":"2.0","id":1,"method":"ping"}`, `{"jsonrpc":"2.0","method":"notifications/x"}`, `{"jsonrpc":"2.0","id":1,"result":{}}`} {
		response, text := send(t, http.MethodPost, url, "", "["+first+","+initialize+"]")
		if response.StatusCode < 400 && !strings.Contains(text, `"code":-32600`) {
			t.Errorf("%s: %s %s", first, response.Status, text)
		}
	}
}

func TestABatchIsBounded(t *testing.T) {
	t.Parallel()
	_, url := plainServer(t, ServerOptions{})
	response, _ := send(t, http.MethodPost, url, "", initialize)
	session := response.Header.Get(sessionHeader)
	batch := func(n int) string {
		return "[" + strings.TrimSuffix(strings.Repeat(`{"jsonrpc":"2.0","method":"notifications/x"},`, n), ",") + "]"
	}
	if response, text := send(t, http.MethodPost, url, session, batch(maxBatch)); response.StatusCode != http.StatusAccepted {
		t.Errorf("%s %s", response.Status, text)
	}
	if response, text := send(t, http.MethodPost, url, session, batch(maxBatch+1)); response.StatusCode != http.StatusBadRequest || !strings.Contains(text, "at most 100") {
		t.Errorf("%s %s", response.Status, text)
	}
}

func TestAnEndedSessionHasNoTimer(t *testing.T) {
	t.Parallel()
	s, url := plainServer(t, ServerOptions{})
	response, _ := send(t, http.MethodPost, url, "", initialize)
	id := response.Header.Get(sessionHeader)
	session, _ := s.sessions.Get(id)
	if response, text := send(t, http.MethodDelete, url, id, ""); response.StatusCode != http.StatusNoContent {
		t.Fatalf("%s %s", response.Status, text)
	}
	if session.expiry.Stop() {
		t.Error("the timer still holds the session")
	}
}

func TestWhatASessionKeepsOfItsClientIsBounded(t *testing.T) {
	t.Parallel()
	_, url := plainServer(t, ServerOptions{})
	large := strings.Replace(initialize, `"name":"a"`, `"name":"`+strings.Repeat("a", maxClient)+`"`, 1)
	if _, text := send(t, http.MethodPost, url, "", large); !strings.Contains(text, "-32602") {
		t.Error(text)
	}
}

func TestAPanicOfPrepareEndsItsRequestOnly(t *testing.T) {
	t.Parallel()
	s, err := NewServer(ServerOptions{
		Name: "x", Version: "1",
		Handle: func(context.Context, *ServerRequest) (json.RawMessage, error) { return json.RawMessage("{}"), nil },
		Prepare: func(_ context.Context, r *ServerRequest) {
			if r.Method == "tools/call" {
				panic("x")
			}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	in := strings.NewReader(initialize + "\n" + `{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"a"}}` + "\n" + `{"jsonrpc":"2.0","id":4,"method":"ping"}` + "\n")
	var out strings.Builder
	if err := s.Stdio(t.Context(), io.NopCloser(in), &out); err != nil {
		t.Fatal(err)
	}
	if text := out.String(); !strings.Contains(text, `"code":-32603`) || !strings.Contains(text, `"id":4`) {
		t.Error(text)
	}
}

func TestASlowClientDoesNotDelayTheNewsOfOthers(t *testing.T) {
	t.Parallel()
	s, url := plainServer(t, ServerOptions{Capabilities: json.RawMessage(`{"tools":{"listChanged":true}}`)})
	heard, block := make(chan struct{}, 10), make(chan struct{})
	t.Cleanup(func() { close(block) })
	const slow = 7
	for i := range slow + 1 {
		response, text := send(t, http.MethodPost, url, "", initialize)
		session, ok := s.sessions.Get(response.Header.Get(sessionHeader))
		if !ok {
			t.Fatalf("no session: %s", text)
		}
		session.sendAlone = func([]byte) error {
			if i < slow {
				<-block
			}
			heard <- struct{}{}
			return nil
		}
	}
	s.ListChanged("tools")
	select {
	case <-heard:
	case <-time.After(30 * time.Second):
		t.Error("a client that reads waits for those that do not")
	}
}

func TestNoSessionOutlivesTheClosingOfItsServer(t *testing.T) {
	t.Parallel()
	for range 10 {
		s, url := plainServer(t, ServerOptions{})
		var work sync.WaitGroup
		for range 8 {
			work.Go(func() { send(t, http.MethodPost, url, "", initialize) })
		}
		s.Close()
		work.Wait()
		s.mu.Lock()
		if len(s.live) > 0 || len(s.sessionCounts) > 0 {
			t.Errorf("%d sessions live, of %d owners", len(s.live), len(s.sessionCounts))
		}
		s.mu.Unlock()
	}
}

func TestNothingBeginsOnAPipeThatHasEnded(t *testing.T) {
	t.Parallel()
	s, _ := plainServer(t, ServerOptions{})
	p := s.newPipe(t.Context(), func([]byte) error { return nil })
	began := make(chan struct{})
	if !p.spawn(func() { close(began) }) {
		t.Fatal("nothing begins at all")
	}
	<-began
	p.end()
	if p.spawn(func() { t.Error("a request began after the end") }) {
		t.Error("the end does not hold")
	}
}

func TestTheSubscriptionsOfAClientAreBounded(t *testing.T) {
	t.Parallel()
	s, err := NewServer(ServerOptions{
		Name: "x", Version: "1", Capabilities: json.RawMessage(`{"resources":{"subscribe":true}}`),
		Handle:    func(context.Context, *ServerRequest) (json.RawMessage, error) { return json.RawMessage("{}"), nil },
		Subscribe: func(context.Context, *ServerRequest, string) (func(), error) { return func() {}, nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	session, _ := s.newSession(t.Context())
	for i := range maxSubscriptions + 1 {
		r := &ServerRequest{Session: session, Name: strconv.Itoa(i)}
		if _, err := s.subscribe(t.Context(), r); (err == nil) != (i < maxSubscriptions) {
			t.Fatalf("subscription %d: %v", i, err)
		}
	}
	session.unsubscribe("0")
	if _, err := s.subscribe(t.Context(), &ServerRequest{Session: session, Name: "more"}); err != nil {
		t.Errorf("after the end of one: %v", err)
	}
	uris := strings.TrimSuffix(strings.Repeat(`"a:x",`, maxSubscriptions+1), ",")
	r := &ServerRequest{ID: json.RawMessage("1"), Params: json.RawMessage(`{"notifications":{"resourceSubscriptions":[` + uris + `]}}`)}
	if _, err := s.listen(t.Context(), r); err == nil || !strings.Contains(err.Error(), "at most 1000") {
		t.Errorf("a request for more: %v", err)
	}
}
