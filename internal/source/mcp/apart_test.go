package mcpsource_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/oauth"
	mcpsource "github.com/toolroom/toolroom/internal/source/mcp"
	"github.com/toolroom/toolroom/source"
)

// chatter is an older server that says something on the stream of its first session
// during the second call, and answers that call when it is told to.
type chatter struct {
	mu      sync.Mutex
	began   int
	calls   int
	first   chan string // what goes out on the stream of the first session
	open    chan struct{}
	answers chan struct{} // closed when calls may be answered
}

func newChatter(t *testing.T) (*chatter, string) {
	c := &chatter{first: make(chan string, 8), open: make(chan struct{}), answers: make(chan struct{})}
	server := httptest.NewServer(c)
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	return c, server.URL + "/mcp"
}

// again reports whether there was a call before this one.
func (c *chatter) again() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls++
	return c.calls > 1
}

func (c *chatter) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	session := r.Header.Get("Mcp-Session-Id")
	if r.Method == http.MethodGet {
		w.Header().Set("Content-Type", "text/event-stream")
		w.(http.Flusher).Flush()
		if session != "s1" {
			<-r.Context().Done()
			return
		}
		close(c.open)
		for {
			select {
			case said := <-c.first:
				fmt.Fprintf(w, "data: %s\n\n", said)
				w.(http.Flusher).Flush()
			case <-r.Context().Done():
				return
			}
		}
	}
	body, _ := io.ReadAll(r.Body)
	var m struct {
		ID     json.RawMessage `json:"id"`
		Method string          `json:"method"`
	}
	json.Unmarshal(body, &m)
	answer := func(result string) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, result)
	}
	switch {
	case m.ID == nil || m.Method == "":
		w.WriteHeader(http.StatusAccepted)
	case m.Method == "initialize":
		c.mu.Lock()
		c.began++
		w.Header().Set("Mcp-Session-Id", fmt.Sprint("s", c.began))
		c.mu.Unlock()
		answer(`{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"chatter","version":"1"}}`)
	case m.Method == "tools/call" && c.again():
		<-c.open
		c.first <- `{"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":{"message":"secret of ada?","requestedSchema":{"type":"object"}}}`
		c.first <- `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"of ada"}}`
		<-c.answers
		answer(oddResult)
	case m.Method == "tools/call":
		answer(oddResult)
	default:
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no such method"}}`, m.ID)
	}
}

// asking is a client that is asked, and says so.
type asking struct {
	source.Nobody
	t *testing.T
}

func (asking) Can(string) bool { return true }

func (a asking) Ask(_ context.Context, questions map[string]source.Question) (map[string]json.RawMessage, error) {
	a.t.Errorf("bob was asked what is for ada: %v", questions)
	return nil, source.Unanswerable(source.MethodElicit)
}

func TestWhatComesOnTheConnectionOfOneIsNotForTheCallOfAnother(t *testing.T) {
	t.Parallel()
	c, url := newChatter(t)
	s := mcpsource.New(mcpsource.Config{
		Namespace: "odd", URL: url,
		Auth: func(string) *oauth.Client { return oauth.New(oauth.Config{Resource: url}, &loginStore{}, nil) },
	})
	t.Cleanup(func() { s.Close() })
	heard := make(chan source.Notice, 8)
	s.Notices(func(n source.Notice) { heard <- n })
	as := func(who string, ask source.Asker, emit func(toolroom.Event)) error {
		_, err := s.Call(t.Context(), &source.Request{Tool: toolroom.ID{Namespace: "odd", Name: "odd"}, Identity: toolroom.Identity{Subject: who}, Ask: ask, Emit: emit})
		return err
	}
	if err := as("ada", nil, func(toolroom.Event) {}); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		done <- as("bob", asking{t: t}, func(e toolroom.Event) { t.Errorf("the call of bob heard %+v", e) })
	}()
	select {
	case n := <-heard:
		if diff := cmp.Diff([]any{"ada", false, `{"level":"info","data":"of ada"}`}, []any{n.To, n.Everybody, string(n.Params)}); diff != "" {
			t.Errorf("who hears it, and what (-want +got)\n%s", diff)
		}
	case <-time.After(time.Minute):
		t.Error("ada never heard what came on her connection")
	}
	close(c.answers)
	if err := <-done; err != nil {
		t.Error(err)
	}
}
