package app

import (
	"context"
	"time"
)

// drainPoll is how often Drain checks.
const drainPoll = 10 * time.Millisecond

// Drain waits until no tool is running or ctx ends. It does not block new calls.
func (r *App) Drain(ctx context.Context) {
	tick := time.NewTicker(drainPoll)
	defer tick.Stop()
	for r.busy() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

func (r *App) busy() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, h := range r.managers {
		if h.calls.some() {
			return true
		}
	}
	return false
}
