package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"strconv"
	"testing"
	"time"

	"github.com/toolroom/toolroom/internal/proc"
	"github.com/toolroom/toolroom/mcp"
	"github.com/toolroom/toolroom/source"
)

// A task that is polled is not busy between two looks, and its connection is asked for once.
func TestAConnectionThatIsPolledIsNotClosedForAnother(t *testing.T) {
	t.Parallel()
	s := New(Config{URL: "http://localhost:1/mcp", Namespace: "x"})
	t.Cleanup(func() { s.Close() })
	long := time.Now().Add(-2 * unusedAfter)
	with := func(who string, lastUse time.Time, busy int64) {
		l := newLink(s, linkKey{owner: who})
		l.lastUsed = long
		l.state, l.up = ready, &upstream{session: &mcp.Client{}, stderr: &proc.Tail{}}
		l.up.lastUse.Store(lastUse.UnixNano())
		l.up.busy.Store(busy)
		s.links[l.linkKey] = l
	}
	with("polled", time.Now(), 0)
	with("waits", long, 1)
	for i := len(s.links); i < maxLinks; i++ {
		l := newLink(s, linkKey{owner: strconv.Itoa(i)}) // has no connection
		l.lastUsed = long
		s.links[l.linkKey] = l
	}
	s.linkByKey(linkKey{owner: "another"})
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, who := range []string{"polled", "waits", "another"} {
		if s.links[linkKey{owner: who}] == nil {
			t.Errorf("the connection of %s was closed", who)
		}
	}
	if n := len(s.links); n != 3 {
		t.Errorf("%d connections are left", n)
	}
	for _, who := range []string{"polled", "waits"} { // without a session to end
		s.links[linkKey{owner: who}].up = nil
	}
}

// A request on a connection that is ended at the same moment would be lost.
func TestAConnectionThatIsEndedForLackOfUseTakesNoRequest(t *testing.T) {
	t.Parallel()
	busy, idle := &upstream{}, &upstream{}
	busy.busy.Store(1)
	if busy.retireIfIdle(time.Minute) {
		t.Error("a connection in use is ended")
	}
	if !idle.retireIfIdle(time.Minute) {
		t.Error("a connection that was not used stays")
	}
	for range 2 {
		if _, err := idle.call(t.Context(), &mcp.Request{Method: "ping"}); !errors.Is(err, mcp.ErrNotSent) {
			t.Errorf("the request ended with %v", err)
		}
	}
}

// A connection that was opened for a source that has been closed meanwhile is closed again. Its
// server may take its time, and whoever asks for the state of the source does not wait for it.
func TestASourceIsDescribedWhileALateConnectionIsClosed(t *testing.T) {
	t.Parallel()
	server, err := mcp.NewServer(mcp.ServerOptions{
		Name: "slow", Handle: func(_ context.Context, r *mcp.ServerRequest) (json.RawMessage, error) {
			return nil, mcp.MethodNotFound(r.Method)
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	in, toServer := io.Pipe()
	fromServer, out := io.Pipe()
	go func() { _ = server.Stdio(t.Context(), in, out) }()
	stopping, stopped := make(chan struct{}), make(chan struct{})
	session, err := mcp.Connect(t.Context(), mcp.Stdio(mcp.Pipes{
		In: mcp.NewLines(fromServer, io.Discard), Out: toServer,
		Stop: func() { close(stopping); <-stopped; toServer.Close(); out.Close() },
	}), mcp.ClientOptions{})
	if err != nil {
		t.Fatal(err)
	}
	s := New(Config{URL: "http://localhost:1/mcp", Namespace: "slow"})
	l := s.mainLink()
	l.state = draining
	ended := make(chan bool, 1)
	go func() { ended <- l.connected(&upstream{session: session, stderr: &proc.Tail{}}) }()
	<-stopping
	described := make(chan source.Description, 1)
	go func() { described <- s.Describe() }()
	select {
	case d := <-described:
		if d.State != string(draining) {
			t.Errorf("the state is %s", d.State)
		}
	case <-time.After(10 * time.Second):
		t.Error("the description waits for the server")
	}
	close(stopped)
	if <-ended {
		t.Error("a closed link has a connection again")
	}
	s.Close()
}
