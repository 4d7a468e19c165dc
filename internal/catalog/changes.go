package catalog

import (
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/panics"
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

// Listeners is a set of functions that receive events of one kind. The zero Listeners is
// empty. Its methods may be called concurrently.
type Listeners[T any] struct {
	mu   sync.Mutex
	all  map[int]func(T)
	next int
}

// Add adds f, which is called with each event until cancel is called. cancel may be called
// more than once. f must not block.
func (l *Listeners[T]) Add(f func(T)) (cancel func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.all == nil {
		l.all = map[int]func(T){}
	}
	key := l.next
	l.next++
	l.all[key] = f
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.all, key)
	}
}

// Notify calls all functions, in any order, and returns after the last.
func (l *Listeners[T]) Notify(event T) {
	l.mu.Lock()
	all := slices.Collect(maps.Values(l.all))
	l.mu.Unlock()
	for _, f := range all {
		panics.Log(slog.Default(), "a listener", func() { f(event) }) // the other functions are called nevertheless
	}
}

// Empty reports whether there are no functions.
func (l *Listeners[T]) Empty() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.all) == 0
}
