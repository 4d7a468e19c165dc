package mcp

import (
	"slices"
	"sync"
)

const (
	// maxStored limits the size of all stored events, in bytes. eventWeight is what an event
	// takes besides its text.
	maxStored   = 10 << 20
	eventWeight = 64
)

// eventLog stores the events of all streams that can be resumed, up to a total size. It drops
// the oldest events first.
type eventLog struct {
	max int

	mu    sync.Mutex // guards the journals as well
	size  int
	order []*journal // one for each event, the oldest first
	stale int        // number of entries in order whose journal is forgotten
}

// journal holds the stored events of one stream.
type journal struct {
	events    []string
	first     int // number of the first of events
	forgotten bool
}

// add stores the next event of a stream.
func (l *eventLog) add(j *journal, text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	j.events = append(j.events, text)
	l.order = append(l.order, j)
	l.size += len(text) + eventWeight
	for l.size > l.max && len(l.order) > 1 {
		oldest := l.order[0]
		l.order[0] = nil
		l.order = l.order[1:]
		if oldest.forgotten {
			l.stale--
		} else {
			l.size -= len(oldest.events[0]) + eventWeight
			oldest.events[0] = ""
			oldest.events = oldest.events[1:]
			oldest.first++
		}
	}
}

// from returns the stored events of a stream, starting with a number, and the number of the
// first of them, which is larger if events have been dropped.
func (l *eventLog) from(j *journal, number int) (events []string, first int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	first = max(number, j.first)
	return slices.Clone(j.events[min(first-j.first, len(j.events)):]), first
}

func (l *eventLog) empty(j *journal) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(j.events) == 0
}

// forget drops the events of a stream that has ended.
func (l *eventLog) forget(j *journal) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, text := range j.events {
		l.size -= len(text) + eventWeight
	}
	l.stale += len(j.events)
	j.first += len(j.events)
	j.events, j.forgotten = nil, true
	if l.stale > len(l.order)/2 {
		l.order = slices.DeleteFunc(l.order, func(of *journal) bool { return of.forgotten })
		l.stale = 0
	}
}
