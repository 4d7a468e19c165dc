package mcp

import (
	"context"
	"maps"
	"sync"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/catalog"
	"github.com/toolroom/toolroom/mcp"
	"github.com/toolroom/toolroom/source"
)

// watches holds the resources to which clients have subscribed, by URI. The server subscribes
// once at the source of each, and unsubscribes when the last client does.
type watches struct {
	mu    sync.Mutex
	byURI map[string]*watch
}

// watch is one resource to which clients have subscribed.
type watch struct {
	listeners int // guarded by the lock of watches

	// turn is held while the source is asked. It guards the fields below.
	turn   chan struct{}
	source source.Library // at which the server has subscribed; nil means none
	own    string         // the source's own URI
}

// join adds a listener to a resource, which must call leave.
func (w *watches) join(uri string) *watch {
	w.mu.Lock()
	defer w.mu.Unlock()
	one := w.byURI[uri]
	if one == nil {
		if w.byURI == nil {
			w.byURI = map[string]*watch{}
		}
		one = &watch{turn: make(chan struct{}, 1)}
		w.byURI[uri] = one
	}
	one.listeners++
	return one
}

// leave removes a listener.
func (w *watches) leave(one *watch) {
	w.mu.Lock()
	defer w.mu.Unlock()
	one.listeners--
}

// hasListeners reports whether a resource has listeners.
func (w *watches) hasListeners(one *watch) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return one.listeners > 0
}

// forget removes a watch, unless a listener has joined it in the meantime.
func (w *watches) forget(uri string, one *watch) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if one.listeners == 0 && w.byURI[uri] == one {
		delete(w.byURI, uri)
	}
}

func (w *watches) all() map[string]*watch {
	w.mu.Lock()
	defer w.mu.Unlock()
	return maps.Clone(w.byURI)
}

// notifyTimeout limits the time for which the end of a subscription waits for its source.
const notifyTimeout = 10 * time.Second

// subscribe subscribes a client to a resource until unsubscribe is called.
func (s *Server) subscribe(ctx context.Context, r *mcp.ServerRequest, uri string) (unsubscribe func(), err error) {
	s.o.Ready(ctx)
	provider, own, ok := s.o.Library.FindResource(uri, s.readableBy(s.o.Identity(ctx), catalog.ReadTool))
	if !ok {
		return nil, resourceNotFound(r, uri)
	}
	if !s.mayAsk(ctx, s.o.Identity(ctx), catalog.ToolID(provider, catalog.ReadTool), map[string]any{"uri": own}) {
		// The time of a change reveals something about the resource.
		return nil, rpcError(toolroom.Errorf(toolroom.CodeDenied, "the policy's rules about effects cannot be enforced on subscriptions, so %s may not subscribe to %s", s.o.Identity(ctx), uri).
			WithCLIHint("see the rules: toolroom policy show"))
	}
	src, _ := s.o.Library.Source(provider)
	watcher, _ := source.As[source.Library](src)
	if watcher == nil {
		return func() {}, nil // the source does not report changes
	}
	return s.watch(ctx, uri, watcher, own)
}

// watch adds a listener to a resource until leave is called, and subscribes at the source if
// it is the first.
func (s *Server) watch(ctx context.Context, uri string, at source.Library, own string) (leave func(), err error) {
	one := s.watches.join(uri)
	leave = func() {
		s.watches.leave(one)
		// The context of the client's request may have ended.
		ctx, cancel := context.WithTimeout(context.Background(), notifyTimeout)
		defer cancel()
		// If this times out, the goroutine that has the turn ends the subscription.
		_ = s.inTurn(ctx, uri, one, func() error { return nil })
	}
	err = s.inTurn(ctx, uri, one, func() error {
		if one.source == at {
			return nil
		}
		// The server has not subscribed yet, or the source has been replaced.
		if err := at.Subscribe(ctx, own); err != nil {
			return rpcError(toolroom.AsError(err))
		}
		one.source, one.own = at, own
		return nil
	})
	if err != nil {
		leave()
		return nil, err
	}
	return leave, nil
}

// inTurn calls do while it holds the turn of a watch, and then ends the subscription at the
// source if no listener remains.
func (s *Server) inTurn(ctx context.Context, uri string, one *watch, do func() error) error {
	select {
	case one.turn <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-one.turn }()
	err := do()
	if s.watches.hasListeners(one) {
		return err
	}
	if one.source != nil {
		// The context of the client's request may have ended.
		ctx, cancel := context.WithTimeout(context.Background(), notifyTimeout)
		defer cancel()
		if err := one.source.Unsubscribe(ctx, one.own); err != nil {
			s.o.Log.Warn("cannot end the subscription to a resource", "uri", uri, "error", err)
		}
		one.source = nil
	}
	s.watches.forget(uri, one)
	return err
}

// resubscribeAll subscribes again at sources that have been replaced, for example by a reload.
func (s *Server) resubscribeAll() {
	for uri, one := range s.watches.all() {
		ctx, cancel := context.WithTimeout(context.Background(), notifyTimeout)
		if err := s.resubscribe(ctx, uri, one); err != nil {
			s.o.Log.Warn("cannot subscribe again to a resource of a source that was made anew", "uri", uri, "error", err)
		}
		cancel()
	}
}

func (s *Server) resubscribe(ctx context.Context, uri string, one *watch) error {
	provider, own, ok := s.o.Library.FindResource(uri, func(string) bool { return true })
	if !ok {
		return nil
	}
	src, _ := s.o.Library.Source(provider)
	watcher, _ := source.As[source.Library](src)
	if watcher == nil {
		return nil
	}
	return s.inTurn(ctx, uri, one, func() error {
		if one.source == nil || one.source == watcher {
			return nil
		}
		if err := watcher.Subscribe(ctx, own); err != nil {
			return err
		}
		one.source, one.own = watcher, own
		return nil
	})
}
