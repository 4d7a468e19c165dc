package catalog

import (
	"sync"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/listener"
)

// ChangeKind is a kind of change of a tool.
type ChangeKind string

// Kinds of changes.
const (
	ChangeRegistered ChangeKind = "registered"
	ChangeUpdated    ChangeKind = "updated"
	ChangeRemoved    ChangeKind = "removed"
)

// Change is one change of the catalog.
type Change struct {
	Kind ChangeKind  `json:"kind"`
	ID   toolroom.ID `json:"id"`
}

// changes collects the changes within a period and sends them to subscribers at its
// end, so that a server with a thousand tools causes one notification.
type changes struct {
	period      time.Duration
	subscribers listener.List[[]Change]

	mu      sync.Mutex
	pending []Change

	// deliver keeps deliveries in order.
	deliver sync.Mutex
}

func newChanges(period time.Duration) *changes {
	return &changes{period: period}
}

func (c *changes) add(ch Change) {
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
	c.subscribers.Tell(group)
}
