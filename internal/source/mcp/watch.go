package mcpsource

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"sync"

	"github.com/toolroom/toolroom/internal/source/mcp/wire"
)

// watches are the resources that somebody wants to hear of. They outlive the
// connections: each new one is told of them.
type watches struct {
	mu      sync.Mutex
	updated func(uri string, said json.RawMessage)
	uris    map[string]bool
}

func (w *watches) all() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Sorted(maps.Keys(w.uris))
}

func (w *watches) put(uri string, wanted bool) {
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

func (w *watches) tell(uri string, said json.RawMessage) {
	w.mu.Lock()
	updated := w.updated
	w.mu.Unlock()
	if updated != nil && uri != "" {
		updated(uri, said)
	}
}

// Watch sets the function that hears of changed resources.
func (s *Source) Watch(updated func(uri string, said json.RawMessage)) {
	s.watches.mu.Lock()
	defer s.watches.mu.Unlock()
	s.watches.updated = updated
}

// Subscribe asks the server to tell of changes of a resource, as those hear of
// them who run Toolroom. A server that tells of none is not asked.
func (s *Source) Subscribe(ctx context.Context, uri string) error {
	s.watches.put(uri, true)
	err := s.ask(ctx, "tell of changes of a resource", func(up *upstream) error {
		return up.watch(ctx, "resources/subscribe", uri, s.watches.all())
	})
	if err != nil {
		s.watches.put(uri, false)
	}
	return err
}

// Unsubscribe asks the server to tell no more of a resource.
func (s *Source) Unsubscribe(ctx context.Context, uri string) error {
	s.watches.put(uri, false)
	return s.ask(ctx, "tell no more of a resource", func(up *upstream) error {
		return up.watch(ctx, "resources/unsubscribe", uri, s.watches.all())
	})
}

// watch makes one change of what a server tells of: to an older server by
// method, to a modern one by the whole list.
func (up *upstream) watch(ctx context.Context, method, uri string, uris []string) error {
	server := up.session.Server()
	switch {
	case !server.Subscribes():
		return nil
	case server.Modern():
		return up.session.Watch(ctx, uris)
	}
	_, err := up.call(ctx, &wire.Request{Method: method, Params: []wire.Field{wire.String("uri", uri)}})
	return err
}

// rewatch tells a new connection of all that is watched. What cannot be
// watched any more is not worth the connection, nor long waiting: calls wait, too.
func (s *Source) rewatch(ctx context.Context, up *upstream) {
	ctx, cancel := context.WithTimeout(ctx, checkTime)
	defer cancel()
	var failed []error
	uris := s.watches.all()
	for _, uri := range uris {
		failed = append(failed, up.watch(ctx, "resources/subscribe", uri, uris))
		if up.session.Server().Modern() {
			break
		}
	}
	if err := errors.Join(failed...); err != nil {
		s.o.Log.Warn("resources of an MCP server are not watched any more", "source", s.o.Namespace, "error", err)
	}
}
