package catalog

import (
	"sync"
	"time"

	"github.com/toolroom/toolroom"
)

// changes collects the changes within a period and sends them to subscribers at its
// end, so that a server with a thousand tools causes one notification.
type changes struct {
	period      time.Duration
	subscribers Listeners[[]toolroom.Change]

	mu      sync.Mutex
	pending []toolroom.Change

	// deliver keeps deliveries in order.
	deliver sync.Mutex
}

func newChanges(period time.Duration) *changes {
	return &changes{period: period}
}

func (c *changes) add(ch toolroom.Change) {
	if c.subscribers.Empty() {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pending = append(c.pending, ch)
	if len(c.pending) == 1 {
		time.AfterFunc(c.period, c.flush)
	}
}

func (c *changes) flush() {
	c.deliver.Lock()
	defer c.deliver.Unlock()
	c.mu.Lock()
	group := c.pending
	c.pending = nil
	c.mu.Unlock()
	c.subscribers.Notify(group)
}
