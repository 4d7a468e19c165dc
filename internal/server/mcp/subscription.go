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

// watched has the resources that clients listen to, by URI, so that the source of each is
// asked once, and no more once nobody listens.
type watched struct {
	mu    sync.Mutex
	byURI map[string]*watch
}

// watch is one resource.
type watch struct {
	listeners int // guarded by the lock of watched

	// turn is held by whoever asks the source. It guards the fields below.
	turn   chan struct{}
	source source.Library // that is subscribed to; nil for none
	own    string         // the source's own URI
}

// join returns the watch of a resource with one more listener, who leaves it.
func (w *watched) join(uri string) *watch {
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

// leave counts one listener less.
func (w *watched) leave(one *watch) {
	w.mu.Lock()
	defer w.mu.Unlock()
	one.listeners--
}

// heard reports whether somebody listens to a resource.
func (w *watched) heard(one *watch) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return one.listeners > 0
}

// forget removes a watch, unless a listener has come meanwhile.
func (w *watched) forget(uri string, one *watch) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if one.listeners == 0 && w.byURI[uri] == one {
		delete(w.byURI, uri)
	}
}

func (w *watched) all() map[string]*watch {
	w.mu.Lock()
	defer w.mu.Unlock()
	return maps.Clone(w.byURI)
}

// notifyTimeout bounds how long the end of a subscription waits for its source.
const notifyTimeout = 10 * time.Second

// subscribe watches a resource for a client, until unsubscribe is called.
func (s *Server) subscribe(ctx context.Context, r *mcp.ServerRequest, uri string) (unsubscribe func(), err error) {
	provider, own, ok := s.o.Library.FindResource(uri, s.readers(s.o.Identity(ctx), catalog.ReadTool))
	if !ok {
		return nil, noResource(r, uri)
	}
	if !s.mayAsk(ctx, s.o.Identity(ctx), catalog.ToolID(provider, catalog.ReadTool), map[string]any{"uri": own}) {
		// When something changes says something of it.
		return nil, rpcError(toolroom.Errorf(toolroom.CodeDenied, "the policy's rules about effects cannot be enforced on subscriptions, so %s may not subscribe to %s", s.o.Identity(ctx), uri).
			WithCLIHint("see the rules: toolroom policy show"))
	}
	src, _ := s.o.Library.Source(provider)
	watcher, _ := source.As[source.Library](src)
	if watcher == nil {
		return func() {}, nil // it tells of no changes
	}
	return s.watch(ctx, uri, watcher, own)
}

// watch subscribes to a resource at its source, unless that has been done, until leave is
// called.
func (s *Server) watch(ctx context.Context, uri string, at source.Library, own string) (leave func(), err error) {
	one := s.watched.join(uri)
	leave = func() {
		s.watched.leave(one)
		// The stream that listened has ended, perhaps with its context.
		ctx, cancel := context.WithTimeout(context.Background(), notifyTimeout)
		defer cancel()
		// Without a turn in time, the one who has it ends the subscription.
		_ = s.inTurn(ctx, uri, one, func() error { return nil })
	}
	err = s.inTurn(ctx, uri, one, func() error {
		if one.source == at {
			return nil
		}
		// Nobody has asked it, or it has been made anew.
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

// inTurn calls do while nobody else asks the source of a resource, and then ends the
// subscription at the source if nobody listens any more.
func (s *Server) inTurn(ctx context.Context, uri string, one *watch, do func() error) error {
	select {
	case one.turn <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-one.turn }()
	err := do()
	if s.watched.heard(one) {
		return err
	}
	if one.source != nil {
		// The request that is served may have ended, with its context.
		ctx, cancel := context.WithTimeout(context.Background(), notifyTimeout)
		defer cancel()
		if err := one.source.Unsubscribe(ctx, one.own); err != nil {
			s.o.Log.Warn("cannot end the subscription to a resource", "uri", uri, "error", err)
		}
		one.source = nil
	}
	s.watched.forget(uri, one)
	return err
}

// watchAnew subscribes at sources that have been made anew, as after a reload, for those
// who listen.
func (s *Server) watchAnew() {
	for uri, one := range s.watched.all() {
		ctx, cancel := context.WithTimeout(context.Background(), notifyTimeout)
		if err := s.watchAgain(ctx, uri, one); err != nil {
			s.o.Log.Warn("cannot subscribe again to a resource of a source that was made anew", "uri", uri, "error", err)
		}
		cancel()
	}
}

func (s *Server) watchAgain(ctx context.Context, uri string, one *watch) error {
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
