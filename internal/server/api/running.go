package api

import (
	"context"
	"sync"
)

// running are the calls that this server has under way, so that they can be
// cancelled by id. The zero value is ready.
type running struct {
	mu    sync.Mutex
	calls map[string]underWay
}

type underWay struct {
	owner  string
	cancel context.CancelFunc
}

// enter adds a call until leave is called.
func (r *running) enter(id, owner string, cancel context.CancelFunc) (leave func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.calls == nil {
		r.calls = map[string]underWay{}
	}
	r.calls[id] = underWay{owner, cancel}
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.calls, id)
	}
}

func (r *running) get(id string) (underWay, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c, ok := r.calls[id]
	return c, ok
}
