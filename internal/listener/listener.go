// Package listener keeps who wants to be told of what happens.
package listener

import (
	"maps"
	"slices"
	"sync"
)

// List is a set of functions that are told of events of one kind. The zero List
// is empty; its methods may be called concurrently.
type List[T any] struct {
	mu   sync.Mutex
	all  map[int]func(T)
	next int
}

// Add has f called with each event, until cancel is called, which may be more
// than once. f must not block.
func (l *List[T]) Add(f func(T)) (cancel func()) {
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

// Tell calls all functions, in any order, and returns after the last.
func (l *List[T]) Tell(event T) {
	l.mu.Lock()
	all := slices.Collect(maps.Values(l.all))
	l.mu.Unlock()
	for _, f := range all {
		f(event)
	}
}

// Empty tells whether nobody listens.
func (l *List[T]) Empty() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.all) == 0
}
