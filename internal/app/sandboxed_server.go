package app

import (
	"context"
	"encoding/json"
	"slices"
	"sync"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/source"
)

// sandboxedServer is an MCP server in a sandbox. A server serves many calls, so there is
// one for each set of rules that calls must keep, and one without rules, which lists the
// tools.
type sandboxedServer struct {
	*sandboxedSource
	source.Library
	withoutRules server // the server that lists the tools

	// enforced returns what a server that is started now would enforce.
	enforced func(ctx context.Context, rules []toolroom.Effect) (enforcement, error)
	// newServer returns a server that enforces rules.
	newServer func(rules []toolroom.Effect) server

	mu      sync.Mutex
	events  source.Events
	servers []*serverWithRules
	closed  bool
	ends    sync.WaitGroup // servers that are being closed
}

// server is a source of an MCP server.
type server interface {
	source.Source
	source.Library
	source.Notifier
}

// serverWithRules is a server under rules.
type serverWithRules struct {
	server
	enforcement
	outdated bool      // close it after its last call
	calls    int       // running now
	last     time.Time // when the last of them ended
}

const (
	// maxServersWithRules is the largest number of servers of one source with rules.
	maxServersWithRules = 16
	// serverIdleTime is how long a server with rules may be without calls before it is
	// closed, unless the config says otherwise.
	serverIdleTime = 10 * time.Minute
)

// Notify sets the functions that the source calls.
func (s *sandboxedServer) Notify(e source.Events) {
	s.mu.Lock()
	s.events = source.Events{ToolsChanged: func() {}, ResourceChanged: e.ResourceChanged, Notified: e.Notified}
	s.mu.Unlock()
	if n, ok := source.As[source.Notifier](s.Source); ok {
		n.Notify(e)
	}
}

// Call runs a tool on the server for the call's rules.
func (s *sandboxedServer) Call(ctx context.Context, req *source.Request) (*source.Output, error) {
	of, done, err := s.acquire(ctx, req)
	if err != nil {
		return &source.Output{Unsent: true}, err
	}
	defer done()
	return of.Call(ctx, req)
}

// ReadResource reads a resource from the server for the call's rules.
func (s *sandboxedServer) ReadResource(ctx context.Context, uri string, req *source.Request) (json.RawMessage, error) {
	of, done, err := s.acquire(ctx, req)
	if err != nil {
		return nil, err
	}
	defer done()
	return of.ReadResource(ctx, uri, req)
}

// GetPrompt fills in a prompt on the server for the call's rules.
func (s *sandboxedServer) GetPrompt(ctx context.Context, name string, args map[string]string, req *source.Request) (json.RawMessage, error) {
	of, done, err := s.acquire(ctx, req)
	if err != nil {
		return nil, err
	}
	defer done()
	return of.GetPrompt(ctx, name, args, req)
}

// acquire returns the server for the call's rules, which stays open until done is called.
func (s *sandboxedServer) acquire(ctx context.Context, req *source.Request) (_ server, done func(), err error) {
	if err := s.checkPermitted(ctx, req); err != nil {
		return nil, nil, err
	}
	if len(req.Forbidden) == 0 {
		return s.withoutRules, func() {}, nil
	}
	r, err := s.acquireWithRules(ctx, req.Forbidden)
	if err != nil {
		return nil, nil, err
	}
	return r, func() { s.release(r) }, nil
}

// acquireWithRules returns the server that enforces rules on the files as they are now. A
// server that was started before may see a file that a rule is about and that is new or was
// replaced since; then another server takes its place.
func (s *sandboxedServer) acquireWithRules(ctx context.Context, rules []toolroom.Effect) (*serverWithRules, error) {
	wanted, err := s.enforced(ctx, rules)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, toolroom.Errorf(toolroom.CodeUpstreamUnavailable, "the source %s is closed", s.starter.name)
	}
	if i := slices.IndexFunc(s.servers, func(r *serverWithRules) bool { return r.rules == wanted.rules && !r.outdated }); i >= 0 {
		r := s.servers[i]
		if r.files == wanted.files {
			r.calls++
			return r, nil
		}
		if r.outdated = true; r.calls == 0 {
			s.closeServer(r)
		}
	}
	if err := s.closeLongestIdle(); err != nil {
		return nil, err
	}
	r := &serverWithRules{server: s.newServer(rules), enforcement: wanted, calls: 1}
	r.Notify(s.events)
	s.servers = append(s.servers, r)
	return r, nil
}

// closeLongestIdle closes the server that has been without calls for the longest time if
// there are too many.
func (s *sandboxedServer) closeLongestIdle() error {
	if len(s.servers) < maxServersWithRules {
		return nil
	}
	var oldest *serverWithRules
	for _, r := range s.servers {
		if r.calls == 0 && (oldest == nil || r.last.Before(oldest.last)) {
			oldest = r
		}
	}
	if oldest == nil {
		return toolroom.Errorf(toolroom.CodeUpstreamUnavailable, "calls of the source %s are running on %d servers under rules, which is the most", s.starter.name, maxServersWithRules).
			WithHint("call again when one of them has ended")
	}
	s.closeServer(oldest)
	return nil
}

func (s *sandboxedServer) release(r *serverWithRules) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r.calls--
	r.last = time.Now()
	if r.outdated && r.calls == 0 && !s.closed {
		s.closeServer(r)
	}
}

// closeServer closes a server in the background. The caller holds the lock, which keeps the
// source open.
func (s *sandboxedServer) closeServer(r *serverWithRules) {
	s.servers = slices.DeleteFunc(s.servers, func(one *serverWithRules) bool { return one == r })
	s.ends.Go(func() { _ = r.Close() })
}

// Close ends all servers.
func (s *sandboxedServer) Close() error {
	s.mu.Lock()
	s.closed = true
	for _, r := range slices.Clone(s.servers) {
		s.closeServer(r)
	}
	s.mu.Unlock()
	err := s.sandboxedSource.Close()
	s.ends.Wait()
	return err
}
