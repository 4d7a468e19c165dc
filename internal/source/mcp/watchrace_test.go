package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/toolroom/toolroom/mcp"
)

// A modern server is told all resources at once, so a list from before must not follow a
// newer one.
func TestResourcesThatAreWatchedAtTheSameTimeAreAllWatched(t *testing.T) {
	t.Parallel()
	server, err := mcp.NewServer(mcp.ServerOptions{
		Name: "watched", Capabilities: json.RawMessage(`{"resources":{"subscribe":true}}`),
		Handle: func(_ context.Context, r *mcp.ServerRequest) (json.RawMessage, error) {
			return nil, mcp.MethodNotFound(r.Method)
		},
		Subscribe: func(context.Context, *mcp.ServerRequest, string) (func(), error) { return func() {}, nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	in, toServer := io.Pipe()
	fromServer, out := io.Pipe()
	go func() { _ = server.Stdio(t.Context(), in, out) }()
	var mu sync.Mutex
	heard := map[string]chan struct{}{}
	session, err := mcp.Connect(t.Context(), mcp.Stdio(mcp.Pipes{
		In: mcp.NewLines(fromServer, io.Discard), Out: toServer, Stop: func() { toServer.Close(); out.Close() },
	}), mcp.ClientOptions{Handler: mcp.ClientHandler{Notified: func(_ any, _ string, params json.RawMessage) {
		var p struct{ URI string }
		_ = json.Unmarshal(params, &p)
		mu.Lock()
		defer mu.Unlock()
		if c := heard[p.URI]; c != nil {
			close(c)
			delete(heard, p.URI)
		}
	}}})
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	s := New(Config{Namespace: "watched", Log: slog.New(slog.DiscardHandler)})
	defer s.Close()
	l := s.mainLink()
	l.state, l.up = ready, &upstream{session: session}
	for round := range 2000 {
		var both sync.WaitGroup
		for _, name := range []string{"a", "b"} {
			both.Go(func() {
				if err := s.Subscribe(t.Context(), fmt.Sprint(name, round)); err != nil {
					t.Error(err)
				}
			})
		}
		both.Wait()
		for _, name := range []string{"a", "b"} {
			uri, told := fmt.Sprint(name, round), make(chan struct{})
			mu.Lock()
			heard[uri] = told
			mu.Unlock()
			server.ResourceUpdated(uri, nil)
			select {
			case <-told:
			case <-time.After(10 * time.Second):
				t.Fatalf("round %d: %s is not watched", round, uri)
			}
			if err := s.Unsubscribe(t.Context(), uri); err != nil {
				t.Fatal(err)
			}
		}
	}
}
