package catalog

import (
	"log/slog"
	"maps"
	"slices"
	"sync"

	"github.com/toolroom/toolroom/internal/panics"
)

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
