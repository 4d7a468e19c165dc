package mcp

import (
	"context"
	"sync"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/catalog"
	"github.com/toolroom/toolroom/mcp"
	"github.com/toolroom/toolroom/source"
)

// watched has the listeners to changes of each resource, by its URI, so that its source is
// asked once, and no more once nobody listens.
type watched struct {
	mu    sync.Mutex
	byURI map[string]*watch
}

// listener is one subscription of one client.
type listener struct{ _ byte }

// watch is one resource. Its fields are guarded by the lock of watched.
type watch struct {
	// turn is held while the source is asked, so that a second session does not take a
	// subscription for made that fails.
	turn      chan struct{}
	listeners map[*listener]bool
	source    source.Library // that has been asked; nil for none
	own       string         // the source's own URI
}

// of returns the watch of a resource, and holds its turn until done is called.
func (w *watched) of(ctx context.Context, uri string) (one *watch, done func(), err error) {
	for {
		w.mu.Lock()
		if w.byURI == nil {
			w.byURI = map[string]*watch{}
		}
		if one = w.byURI[uri]; one == nil {
			one = &watch{turn: make(chan struct{}, 1), listeners: map[*listener]bool{}}
			w.byURI[uri] = one
		}
		w.mu.Unlock()
		select {
		case one.turn <- struct{}{}:
		case <-ctx.Done():
			return nil, nil, ctx.Err()
		}
		w.mu.Lock()
		current := w.byURI[uri] == one
		w.mu.Unlock()
		if current {
			return one, func() { w.done(uri, one) }, nil
		}
		<-one.turn // it was the last one's, who has just left
	}
}

// done ends the turn, and forgets a resource for which nobody listens.
func (w *watched) done(uri string, one *watch) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(one.listeners) == 0 {
		delete(w.byURI, uri)
	}
	<-one.turn
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
	one, done, err := s.watched.of(ctx, uri)
	if err != nil {
		return nil, err
	}
	defer done()
	if one.source != watcher { // nobody has asked it, or it has been made anew
		if err := watcher.Subscribe(ctx, own); err != nil {
			return nil, rpcError(toolroom.AsError(err))
		}
		one.source, one.own = watcher, own
	}
	s.watched.mu.Lock()
	defer s.watched.mu.Unlock()
	l := &listener{}
	one.listeners[l] = true
	return func() { s.leave(l, uri) }, nil
}

// leave ends a subscription, and that at the source if it was the last.
func (s *Server) leave(l *listener, uri string) {
	// The stream that listened has ended, perhaps with its context.
	ctx, cancel := context.WithTimeout(context.Background(), notifyTimeout)
	defer cancel()
	one, done, err := s.watched.of(ctx, uri)
	if err != nil {
		return
	}
	defer done()
	w := &s.watched
	w.mu.Lock()
	delete(one.listeners, l)
	last := len(one.listeners) == 0
	w.mu.Unlock()
	if last && one.source != nil {
		if err := one.source.Unsubscribe(ctx, one.own); err != nil {
			s.o.Log.Warn("cannot end the subscription to a resource", "uri", uri, "error", err)
		}
		one.source = nil
	}
}

// watchAnew subscribes at sources that have been made anew, as after a reload, for those
// who listen.
func (s *Server) watchAnew() {
	w := &s.watched
	w.mu.Lock()
	var uris []string
	for uri, one := range w.byURI {
		if len(one.listeners) > 0 {
			uris = append(uris, uri)
		}
	}
	w.mu.Unlock()
	for _, uri := range uris {
		ctx, cancel := context.WithTimeout(context.Background(), notifyTimeout)
		if err := s.watchAgain(ctx, uri); err != nil {
			s.o.Log.Warn("cannot subscribe again to a resource of a source that was made anew", "uri", uri, "error", err)
		}
		cancel()
	}
}

func (s *Server) watchAgain(ctx context.Context, uri string) error {
	provider, own, ok := s.o.Library.FindResource(uri, func(string) bool { return true })
	if !ok {
		return nil
	}
	src, _ := s.o.Library.Source(provider)
	watcher, _ := source.As[source.Library](src)
	one, done, err := s.watched.of(ctx, uri)
	if err != nil {
		return err
	}
	defer done()
	if watcher == nil || one.source == nil || one.source == watcher {
		return nil
	}
	if err := watcher.Subscribe(ctx, own); err != nil {
		return err
	}
	one.source, one.own = watcher, own
	return nil
}
