package mcpserver

import (
	"context"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/source"
)

// watched has the sessions that listen for changes of each resource, by its URI, so that
// its source is asked once, and no more once nobody listens.
type watched struct {
	mu    sync.Mutex
	byURI map[string]*watch
	// left is set for sessions whose end is awaited.
	left map[*mcp.ServerSession]bool
}

// watch is one resource. Its fields are guarded by the lock of watched.
type watch struct {
	// turn is held while the source is asked, so that a second session does not take a
	// subscription for made that fails.
	turn     chan struct{}
	sessions map[*mcp.ServerSession]bool
	source   source.Watcher // that has been asked; nil for none
	own      string         // the source's own URI
}

// of returns the watch of a resource, and holds its turn until done is called.
func (w *watched) of(ctx context.Context, uri string) (one *watch, done func(), err error) {
	for {
		w.mu.Lock()
		if w.byURI == nil {
			w.byURI, w.left = map[string]*watch{}, map[*mcp.ServerSession]bool{}
		}
		if one = w.byURI[uri]; one == nil {
			one = &watch{turn: make(chan struct{}, 1), sessions: map[*mcp.ServerSession]bool{}}
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
	if len(one.sessions) == 0 {
		delete(w.byURI, uri)
	}
	<-one.turn
}

func (s *Server) subscribe(ctx context.Context, req *mcp.SubscribeRequest) error {
	watcher, own, err := s.watcher(ctx, req.Session, req.Params.URI)
	if err != nil || watcher == nil {
		return err
	}
	one, done, err := s.watched.of(ctx, req.Params.URI)
	if err != nil {
		return err
	}
	defer done()
	if one.source != watcher { // nobody has asked it, or it has been made anew
		if err := watcher.Subscribe(ctx, own); err != nil {
			return rpcError(toolroom.AsError(err))
		}
		one.source, one.own = watcher, own
	}
	w := &s.watched
	w.mu.Lock()
	defer w.mu.Unlock()
	one.sessions[req.Session] = true
	if !w.left[req.Session] {
		w.left[req.Session] = true
		go s.leaveAll(req.Session)
	}
	return nil
}

func (s *Server) unsubscribe(ctx context.Context, req *mcp.UnsubscribeRequest) error {
	// The stream that listened has ended, perhaps with its context.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), notifyTimeout)
	defer cancel()
	return s.leaveOne(ctx, req.Session, req.Params.URI)
}

// leaveOne ends the subscription of a session, and that at the source if it was the last.
func (s *Server) leaveOne(ctx context.Context, session *mcp.ServerSession, uri string) error {
	one, done, err := s.watched.of(ctx, uri)
	if err != nil {
		return err
	}
	defer done()
	w := &s.watched
	w.mu.Lock()
	had := one.sessions[session]
	delete(one.sessions, session)
	last := len(one.sessions) == 0
	w.mu.Unlock()
	if had && last && one.source != nil {
		err = one.source.Unsubscribe(ctx, one.own)
		one.source = nil
	}
	if err != nil {
		return rpcError(toolroom.AsError(err))
	}
	return nil
}

// leaveAll ends the subscriptions of a session when it ends: a client that has crashed
// says nothing.
func (s *Server) leaveAll(session *mcp.ServerSession) {
	_ = session.Wait()
	w := &s.watched
	w.mu.Lock()
	var uris []string
	for uri, one := range w.byURI {
		if one.sessions[session] {
			uris = append(uris, uri)
		}
	}
	delete(w.left, session)
	w.mu.Unlock()
	for _, uri := range uris {
		ctx, cancel := context.WithTimeout(context.Background(), notifyTimeout)
		_ = s.leaveOne(ctx, session, uri) // a source that has gone needs no word
		cancel()
	}
}

// watchAnew subscribes at sources that have been made anew, as after a reload, for the
// sessions that listen.
func (s *Server) watchAnew() {
	w := &s.watched
	w.mu.Lock()
	var uris []string
	for uri, one := range w.byURI {
		if len(one.sessions) > 0 {
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
	watcher, _ := source.As[source.Watcher](src)
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
