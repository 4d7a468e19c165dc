package wire

import (
	"encoding/json"
	"errors"
	"math/rand/v2"
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

// listen keeps the one long request open by which a modern server tells of
// changed tools. What happened between two of them is not told: it counts as a
// change.
func (s *Session) listen() {
	var wait reopening
	for first := true; ; first = false {
		if !first && s.handler.Notified != nil {
			s.handler.Notified(nil, "notifications/tools/list_changed", nil)
		}
		began := time.Now()
		_, err := s.Call(s.open, &Request{Method: "subscriptions/listen", Params: []Field{
			{"notifications", json.RawMessage(`{"toolsListChanged":true}`)},
		}})
		if refused := (*Error)(nil); errors.As(err, &refused) || s.open.Err() != nil {
			return
		}
		if time.Since(began) > lastReopen {
			wait = reopening{}
		}
		select {
		case <-time.After(wait.next()):
		case <-s.open.Done():
			return
		}
	}
}
