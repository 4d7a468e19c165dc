package room

import (
	"context"
	"time"
)

// quietLook is how often Quiet looks.
const quietLook = 10 * time.Millisecond

// Quiet waits until no tool runs, or ctx ends. It keeps nobody from calling.
func (r *Room) Quiet(ctx context.Context) {
	tick := time.NewTicker(quietLook)
	defer tick.Stop()
	for r.busy() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

func (r *Room) busy() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, h := range r.hosts {
		if h.calls.some() {
			return true
		}
	}
	return false
}
