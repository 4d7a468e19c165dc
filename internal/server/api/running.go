package api

import (
	"context"
	"sync"

	"github.com/toolroom/toolroom"
)

// running holds the running calls of this server, so that they can be cancelled by
// id. The zero value is ready for use.
type running struct {
	mu    sync.Mutex
	calls map[string]runningCall
}

type runningCall struct {
	owner  toolroom.Identity
	cancel context.CancelFunc
}

// add adds a call. Calling leave removes it.
func (r *running) add(id string, owner toolroom.Identity, cancel context.CancelFunc) (leave func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.calls == nil {
		r.calls = map[string]runningCall{}
	}
	r.calls[id] = runningCall{owner, cancel}
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.calls, id)
	}
}

func (r *running) get(id string) (runningCall, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c, ok := r.calls[id]
	return c, ok
}
