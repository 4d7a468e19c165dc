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

// sandboxedServer is an MCP server in a sandbox. A server serves many calls, so there is one
// for each set of rules that calls must keep, besides one without rules, which lists the
// tools.
type sandboxedServer struct {
	*sandboxedSource
	source.Library

	// enforced returns what a server that is started now would enforce.
	enforced func(ctx context.Context, rules []toolroom.Effect) (enforced, error)
	under    func(rules []toolroom.Effect) server

	mu     sync.Mutex
	events source.Events
	ruled  []*ruledServer
	closed bool
	ends   sync.WaitGroup // servers that are being closed
}

// server is a source of an MCP server.
type server interface {
	source.Source
	source.Library
	source.Notifier
}

// ruledServer is a server under rules.
type ruledServer struct {
	server
	enforced
	outdated bool      // ends after its last call
	calls    int       // that run
	last     time.Time // when the last of them ended
}

const (
	// maxRuled bounds the servers of a source that run under rules.
	maxRuled = 16
	// ruledIdle is the time without a call after which such a server ends, unless the config
	// says another one.
	ruledIdle = 10 * time.Minute
)

// Notify sets the functions that the source calls.
func (b *sandboxedServer) Notify(e source.Events) {
	b.mu.Lock()
	b.events = source.Events{ToolsChanged: func() {}, ResourceChanged: e.ResourceChanged, Notified: e.Notified}
	b.mu.Unlock()
	if n, ok := source.As[source.Notifier](b.Source); ok {
		n.Notify(e)
	}
}

// Call runs a tool on the server for the call's rules.
func (b *sandboxedServer) Call(ctx context.Context, req *source.Request) (*source.Output, error) {
	if len(req.Forbidden) == 0 {
		return b.sandboxedSource.Call(ctx, req)
	}
	s, err := b.take(ctx, req)
	if err != nil {
		return &source.Output{Unsent: true}, err
	}
	defer b.put(s)
	return s.Call(ctx, req)
}

// ReadResource reads a resource from the server for the call's rules.
func (b *sandboxedServer) ReadResource(ctx context.Context, uri string, req *source.Request) (json.RawMessage, error) {
	if len(req.Forbidden) == 0 {
		if err := b.permitted(ctx, req); err != nil {
			return nil, err
		}
		return b.Library.ReadResource(ctx, uri, req)
	}
	s, err := b.take(ctx, req)
	if err != nil {
		return nil, err
	}
	defer b.put(s)
	return s.ReadResource(ctx, uri, req)
}

// GetPrompt fills in a prompt on the server for the call's rules.
func (b *sandboxedServer) GetPrompt(ctx context.Context, name string, args map[string]string, req *source.Request) (json.RawMessage, error) {
	if len(req.Forbidden) == 0 {
		if err := b.permitted(ctx, req); err != nil {
			return nil, err
		}
		return b.Library.GetPrompt(ctx, name, args, req)
	}
	s, err := b.take(ctx, req)
	if err != nil {
		return nil, err
	}
	defer b.put(s)
	return s.GetPrompt(ctx, name, args, req)
}

// take returns the server on which the call's rules are enforced as files are now. If a file
// that a rule is about is new or has been replaced, a server that was started before may see
// it, so another one takes its place.
func (b *sandboxedServer) take(ctx context.Context, req *source.Request) (*ruledServer, error) {
	if err := b.permitted(ctx, req); err != nil {
		return nil, err
	}
	wanted, err := b.enforced(ctx, req.Forbidden)
	if err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return nil, toolroom.Errorf(toolroom.CodeUpstreamUnavailable, "the source %s is closed", b.starter.name)
	}
	if i := slices.IndexFunc(b.ruled, func(s *ruledServer) bool { return s.rules == wanted.rules && !s.outdated }); i >= 0 {
		s := b.ruled[i]
		if s.files == wanted.files {
			s.calls++
			return s, nil
		}
		if s.outdated = true; s.calls == 0 {
			b.end(s)
		}
	}
	if err := b.makeRoom(); err != nil {
		return nil, err
	}
	s := &ruledServer{server: b.under(req.Forbidden), enforced: wanted, calls: 1}
	s.Notify(b.events)
	b.ruled = append(b.ruled, s)
	return s, nil
}

// makeRoom ends the server that has been without a call for the longest time if there are
// too many.
func (b *sandboxedServer) makeRoom() error {
	if len(b.ruled) < maxRuled {
		return nil
	}
	var oldest *ruledServer
	for _, s := range b.ruled {
		if s.calls == 0 && (oldest == nil || s.last.Before(oldest.last)) {
			oldest = s
		}
	}
	if oldest == nil {
		return toolroom.Errorf(toolroom.CodeUpstreamUnavailable, "calls of the source %s are running on %d servers under rules, which is the most", b.starter.name, maxRuled).
			WithHint("call again when one of them has ended")
	}
	b.end(oldest)
	return nil
}

func (b *sandboxedServer) put(s *ruledServer) {
	b.mu.Lock()
	defer b.mu.Unlock()
	s.calls--
	s.last = time.Now()
	if s.outdated && s.calls == 0 && !b.closed {
		b.end(s)
	}
}

// end closes a server in the background. The caller holds the lock, under which the source
// is not closed.
func (b *sandboxedServer) end(s *ruledServer) {
	b.ruled = slices.DeleteFunc(b.ruled, func(one *ruledServer) bool { return one == s })
	b.ends.Go(func() { _ = s.Close() })
}

// Close ends all servers.
func (b *sandboxedServer) Close() error {
	b.mu.Lock()
	b.closed = true
	for _, s := range slices.Clone(b.ruled) {
		b.end(s)
	}
	b.mu.Unlock()
	err := b.sandboxedSource.Close()
	b.ends.Wait()
	return err
}
