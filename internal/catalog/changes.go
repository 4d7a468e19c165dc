package catalog

import (
	"sync"
	"time"

	"github.com/toolroom/toolroom"
)

// ChangeKind says what happened to a tool.
type ChangeKind string

// The kinds of change.
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

// changes gathers what happens within a period and tells it to subscribers at
// its end, so that a server with a thousand tools is one notification.
type changes struct {
	period time.Duration

	mu          sync.Mutex
	pending     []Change
	subscribers map[int]func([]Change)
	next        int

	// deliver keeps deliveries in order.
	deliver sync.Mutex
}

func newChanges(period time.Duration) *changes {
	return &changes{period: period, subscribers: map[int]func([]Change){}}
}

func (c *changes) add(ch Change) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.subscribers) == 0 {
		return
	}
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
	listeners := make([]func([]Change), 0, len(c.subscribers))
	for _, f := range c.subscribers {
		listeners = append(listeners, f)
	}
	c.mu.Unlock()
	for _, f := range listeners {
		f(group)
	}
}

func (c *changes) subscribe(f func([]Change)) (cancel func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	key := c.next
	c.next++
	c.subscribers[key] = f
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.subscribers, key)
	}
}
