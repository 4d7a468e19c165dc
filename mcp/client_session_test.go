package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
)

// forgetful is a server of older revisions that forgets its session at the call "second",
// while it still works on the call "first".
type forgetful struct{ begun, finish chan struct{} }

func (f *forgetful) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var m struct {
		ID     json.RawMessage `json:"id"`
		Method string          `json:"method"`
		Params struct {
			Name string `json:"name"`
		} `json:"params"`
	}
	if r.Method != http.MethodPost || json.NewDecoder(r.Body).Decode(&m) != nil {
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	answer := func(result string) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, result)
	}
	switch {
	case m.ID == nil:
		w.WriteHeader(http.StatusAccepted)
	case m.Method == "initialize":
		w.Header().Set("Mcp-Session-Id", "one")
		answer(`{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"forgetful","version":"1"}}`)
	case m.Method != "tools/call":
		w.WriteHeader(http.StatusBadRequest)
	case m.Params.Name == "first":
		close(f.begun)
		<-f.finish
		answer(`"done"`)
	default:
		w.WriteHeader(http.StatusNotFound)
	}
}

// A request that the server works on has not been refused because another one was. Whoever
// takes it for refused would make it again.
func TestARequestUnderWayOutlivesItsSession(t *testing.T) {
	t.Parallel()
	f := &forgetful{begun: make(chan struct{}), finish: make(chan struct{})}
	web := httptest.NewServer(f)
	defer web.Close()
	c, err := Connect(t.Context(), HTTP(web.URL, web.Client()), ClientOptions{Name: "test"})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	call := func(ctx context.Context, name string) (json.RawMessage, error) {
		return c.Call(ctx, &Request{Method: "tools/call", Params: []Field{{"name", []byte(`"` + name + `"`)}}})
	}
	type ended struct {
		result json.RawMessage
		err    error
	}
	first := make(chan ended, 1)
	go func() {
		result, err := call(t.Context(), "first")
		first <- ended{result, err}
	}()
	<-f.begun
	_, err = call(t.Context(), "second")
	if !errors.Is(err, ErrSessionGone) {
		t.Errorf("the second call ended with %v, want %v", err, ErrSessionGone)
	}
	c.Close()
	close(f.finish)
	if got := <-first; got.err != nil || string(got.result) != `"done"` {
		t.Errorf("the first call ended with %s, %v", got.result, got.err)
	}
	if _, err := call(t.Context(), "third"); !errors.Is(err, ErrNotSent) {
		t.Errorf("the third call ended with %v, want %v", err, ErrNotSent)
	}
}

// answerAndEnd is a transport to a server that answers each request and ends.
type answerAndEnd struct{ c *Client }

func (t *answerAndEnd) attach(c *Client) { t.c = c }
func (t *answerAndEnd) ready()           {}
func (t *answerAndEnd) close()           {}

func (t *answerAndEnd) send(_ context.Context, m *outgoing) error {
	go func() {
		_ = t.c.receive(fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%d,"result":"done"}`, m.id), 0)
		t.c.end(io.EOF)
	}()
	return nil
}

// Whoever takes the request for lost would make it again.
func TestAResponseJustBeforeTheEndOfTheSessionArrives(t *testing.T) {
	t.Parallel()
	for range 20_000 {
		c := newClient(&answerAndEnd{}, ClientHandler{})
		result, err := c.Call(t.Context(), &Request{Method: "tools/call"})
		c.Close()
		if err != nil || string(result) != `"done"` {
			t.Fatalf("the call ended with %s, %v", result, err)
		}
	}
}
