package wire

import (
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"
)

// Pauses before a stream that broke is opened again: the first, and the longest.
const (
	firstReopen = time.Second
	lastReopen  = time.Minute
)

// reopening is the growing pause between attempts to open a stream, with
// jitter, so that the clients of a server that restarts do not all come at once.
type reopening struct{ pause time.Duration }

func (r *reopening) next() time.Duration {
	r.pause = min(max(2*r.pause, firstReopen), lastReopen)
	return r.pause/2 + rand.N(r.pause/2)
}

// lists are the lists of a server that can change, by the capability that says
// so.
var lists = []struct{ capability, filter, notification string }{
	{"tools", "toolsListChanged", "notifications/tools/list_changed"},
	{"resources", "resourcesListChanged", "notifications/resources/list_changed"},
	{"prompts", "promptsListChanged", "notifications/prompts/list_changed"},
}

// listenToLists keeps a modern server telling of changed lists, of those that it
// says can change.
func (s *Session) listenToLists() {
	filter, missed := []Field{}, []string{}
	for _, l := range lists {
		if s.Server().Announces(l.capability) {
			filter = append(filter, Field{l.filter, json.RawMessage("true")})
			missed = append(missed, l.notification)
		}
	}
	if len(filter) > 0 {
		s.spawn(func() {
			s.listen(s.open, object(filter), func() {}, func() {
				for _, notification := range missed {
					s.handler.notified(nil, notification, nil)
				}
			})
		})
	}
}

// Watch makes a modern server tell of changes of just these resources. It
// returns when the server has said that it does, or cannot.
func (s *Session) Watch(ctx context.Context, uris []string) error {
	listening, stop := context.WithCancel(s.open)
	s.mu.Lock()
	before := s.unwatch
	s.unwatch = stop
	s.mu.Unlock()
	if before != nil {
		// The new stream comes first, so that nothing falls between the two.
		defer before()
	}
	if len(uris) == 0 {
		stop()
		return nil
	}
	text, err := json.Marshal(uris)
	if err != nil {
		stop()
		return err
	}
	opened := make(chan struct{})
	isOpen := sync.OnceFunc(func() { close(opened) })
	began := s.spawn(func() {
		defer isOpen()
		s.listen(listening, object([]Field{{"resourceSubscriptions", text}}), isOpen, func() {
			for _, uri := range uris {
				s.handler.notified(nil, "notifications/resources/updated", object([]Field{String("uri", uri)}))
			}
		})
	})
	if !began {
		stop()
		return s.over()
	}
	select {
	case <-opened:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// listen keeps one long request open by which a modern server tells of what the
// filter names, until ctx ends. What happened between two of them is not told:
// missed stands for it.
func (s *Session) listen(ctx context.Context, filter json.RawMessage, opened, missed func()) {
	var wait reopening
	for first := true; ; first = false {
		if !first {
			missed()
		}
		began := time.Now()
		_, err := s.Call(ctx, &Request{Method: "subscriptions/listen", Params: []Field{{"notifications", filter}}, opened: opened})
		if refused := (*Error)(nil); errors.As(err, &refused) || ctx.Err() != nil {
			return
		}
		if time.Since(began) > lastReopen {
			wait = reopening{}
		}
		select {
		case <-time.After(wait.next()):
		case <-ctx.Done():
			return
		}
	}
}

// acknowledged takes in that a server has begun to tell of what a request asked
// for.
func (s *Session) acknowledged(params json.RawMessage, origin int64) {
	var p struct {
		Meta map[string]json.RawMessage `json:"_meta"`
	}
	if json.Unmarshal(params, &p) == nil {
		if id, err := strconv.ParseInt(string(p.Meta[MetaSubscription]), 10, 64); err == nil {
			origin = id
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if waiting := s.pending[origin]; waiting != nil && waiting.opened != nil {
		waiting.opened()
	}
}
