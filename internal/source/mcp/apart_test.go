package mcp_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/oauth"
	"github.com/toolroom/toolroom/internal/source/mcp"
	"github.com/toolroom/toolroom/source"
)

// chatter is an older server that answers its first call, and later ones when it is
// told to. During one of these it says something on the stream of a session.
type chatter struct {
	speaks  int           // in which call, from 1
	on      string        // whose stream, by the session; empty is that of the call
	answers chan struct{} // closed when calls may be answered

	mu      sync.Mutex
	began   int
	calls   int
	streams map[string]chan string // what goes out, by session
}

func newChatter(t *testing.T, speaks int, on string) (*chatter, string) {
	c := &chatter{speaks: speaks, on: on, answers: make(chan struct{}), streams: map[string]chan string{}}
	server := httptest.NewServer(c)
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	return c, server.URL + "/mcp"
}

// stream is what goes out to a session, as soon as its stream is open.
func (c *chatter) stream(session string) chan string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.streams[session] == nil {
		c.streams[session] = make(chan string, 8)
	}
	return c.streams[session]
}

// count gives the next call its number.
func (c *chatter) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls++
	return c.calls
}

func (c *chatter) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	session := r.Header.Get("Mcp-Session-Id")
	if r.Method == http.MethodGet {
		w.Header().Set("Content-Type", "text/event-stream")
		w.(http.Flusher).Flush()
		for {
			select {
			case said := <-c.stream(session):
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
	case m.Method == "tools/call":
		number := c.count()
		if number == c.speaks {
			out := c.stream(cmp.Or(c.on, session))
			out <- `{"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":{"message":"secret of ada?","requestedSchema":{"type":"object"}}}`
			out <- `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"of ada"}}`
			out <- `{"jsonrpc":"2.0","method":"notifications/elicitation/complete","params":{"elicitationId":"last"}}`
		}
		if number > 1 {
			<-c.answers
		}
		answer(oddResult)
	default:
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no such method"}}`, m.ID)
	}
}

// asking is a client that is asked, and says so.
type asking struct {
	source.NoAsker
	t *testing.T
}

func (asking) Can(string) bool { return true }

func (a asking) Ask(_ context.Context, questions map[string]source.Question) (map[string]json.RawMessage, error) {
	a.t.Errorf("bob was asked what is for ada: %v", questions)
	return nil, source.Unanswerable(source.MethodElicit)
}

func TestWhatComesOnTheConnectionOfOneIsNotForTheCallOfAnother(t *testing.T) {
	t.Parallel()
	c, url := newChatter(t, 2, "s1")
	s := mcp.New(mcp.Config{
		Namespace: "odd", URL: url,
		Auth: func(string) *oauth.Client { return oauth.New(oauth.Config{Resource: url}, &loginStore{}, nil) },
	})
	t.Cleanup(func() { s.Close() })
	heard := make(chan source.Notification, 8)
	s.Notify(source.Events{ToolsChanged: func() {}, Notified: func(n source.Notification) { heard <- n }})
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
		if diff := gocmp.Diff([]any{"ada", false, `{"level":"info","data":"of ada"}`}, []any{n.To, n.Everybody, string(n.Params)}); diff != "" {
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

func TestWhatNamesNoCallIsToldToTheOnlyOneWhoseCallsRun(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name    string
		callers []string
		told    []string
	}{
		{"of one caller", []string{"ada", "ada"}, []string{`ada {"level":"info","data":"of ada"}`}},
		{"of two callers", []string{"ada", "bob"}, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			c, url := newChatter(t, 3, "")
			s := mcp.New(mcp.Config{Namespace: "odd", URL: url})
			t.Cleanup(func() { s.Close() })
			heard := make(chan source.Notification, 8)
			s.Notify(source.Events{ToolsChanged: func() {}, Notified: func(n source.Notification) { heard <- n }})
			as := func(who string) error {
				_, err := s.Call(t.Context(), &source.Request{
					Tool: toolroom.ID{Namespace: "odd", Name: "odd"}, Identity: toolroom.Identity{Subject: who},
					Emit: func(e toolroom.Event) { t.Errorf("a call of %s heard %+v", who, e) },
				})
				return err
			}
			if err := as("ada"); err != nil {
				t.Fatal(err)
			}
			done := make(chan error, len(test.callers))
			for _, who := range test.callers {
				go func() { done <- as(who) }()
			}
			var got []string
			for n := range heard {
				if n.Method == "notifications/elicitation/complete" { // which all hear
					break
				}
				got = append(got, n.To+" "+string(n.Params))
			}
			if diff := gocmp.Diff(test.told, got); diff != "" {
				t.Errorf("who hears it, and what (-want +got)\n%s", diff)
			}
			close(c.answers)
			for range test.callers {
				if err := <-done; err != nil {
					t.Error(err)
				}
			}
		})
	}
}
