package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"sync"

	"github.com/toolroom/toolroom/mcp"
)

// watches holds the subscribed resources. It outlives connections: each new connection subscribes
// to them again.
type watches struct {
	// turn holds a token while the list is sent to a modern server, so that an older list is not
	// sent after a newer one.
	turn    chan struct{}
	mu      sync.Mutex
	updated func(uri string, said json.RawMessage)
	uris    map[string]bool
}

func (w *watches) all() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Sorted(maps.Keys(w.uris))
}

func (w *watches) set(uri string, wanted bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.uris == nil {
		w.uris = map[string]bool{}
	}
	if wanted {
		w.uris[uri] = true
	} else {
		delete(w.uris, uri)
	}
}

func (w *watches) notify(uri string, said json.RawMessage) {
	w.mu.Lock()
	updated := w.updated
	w.mu.Unlock()
	if updated != nil && uri != "" {
		updated(uri, said)
	}
}

// onUpdate sets the function that notify calls.
func (w *watches) onUpdate(updated func(uri string, said json.RawMessage)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.updated = updated
}

// Subscribe asks the server to report changes of a resource, on the operator's
// connection. It does nothing if the server does not support subscriptions.
func (s *Source) Subscribe(ctx context.Context, uri string) error {
	s.watches.set(uri, true)
	err := s.withUpstream(ctx, "report changes of a resource", func(up *upstream) error {
		return up.changeSubscription(ctx, "resources/subscribe", uri, &s.watches)
	})
	if err != nil {
		s.watches.set(uri, false)
	}
	return err
}

// Unsubscribe asks the server to stop reporting changes of a resource.
func (s *Source) Unsubscribe(ctx context.Context, uri string) error {
	s.watches.set(uri, false)
	return s.withUpstream(ctx, "stop reporting changes of a resource", func(up *upstream) error {
		return up.changeSubscription(ctx, "resources/unsubscribe", uri, &s.watches)
	})
}

// changeSubscription sends a changed subscription: to an older server a request with method for one
// uri, to a modern one the whole list.
func (up *upstream) changeSubscription(ctx context.Context, method, uri string, w *watches) error {
	server := up.session.Server()
	switch {
	case !server.Subscribes():
		return nil
	case !server.Modern():
		_, err := up.call(ctx, &mcp.Request{Method: method, Params: []mcp.Field{mcp.String("uri", uri)}})
		return err
	}
	select {
	case w.turn <- struct{}{}:
		defer func() { <-w.turn }()
		return up.session.Watch(ctx, w.all())
	case <-ctx.Done():
		return ctx.Err()
	}
}

// resubscribe subscribes a new connection to all watched resources. Failures are only logged. The
// time is limited, because calls wait for it.
func (s *Source) resubscribe(ctx context.Context, up *upstream) {
	ctx, cancel := context.WithTimeout(ctx, pingTimeout)
	defer cancel()
	var failed []error
	for _, uri := range s.watches.all() {
		failed = append(failed, up.changeSubscription(ctx, "resources/subscribe", uri, &s.watches))
		if up.session.Server().Modern() {
			break
		}
	}
	if err := errors.Join(failed...); err != nil {
		s.o.Log.Warn("subscriptions to resources of an MCP server failed", "source", s.o.Namespace, "error", err)
	}
}
