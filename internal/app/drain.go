package app

import (
	"context"
	"time"
)

// drainPoll is how often Drain checks.
const drainPoll = 10 * time.Millisecond

// Drain waits until no tool is running or ctx ends. It does not block new calls.
func (a *App) Drain(ctx context.Context) {
	tick := time.NewTicker(drainPoll)
	defer tick.Stop()
	for a.busy() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

func (a *App) busy() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, h := range a.managers {
		if h.calls.some() {
			return true
		}
	}
	return false
}
