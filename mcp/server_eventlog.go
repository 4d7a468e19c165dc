package mcp

import (
	"slices"
	"sync"
)

const (
	// maxStored limits the events that are kept for all clients that may resume, in
	// bytes with what an event takes besides its text.
	maxStored   = 10 << 20
	eventWeight = 64
)

// eventLog keeps the events of all streams that can be resumed, up to a size. It drops
// the oldest first.
type eventLog struct {
	max int

	mu    sync.Mutex // guards the journals as well
	size  int
	order []*journal // one for each event, the oldest first
	stale int        // of order, those of forgotten journals
}

// journal is what an eventLog keeps of one stream.
type journal struct {
	events    []string
	first     int // number of the first of events
	forgotten bool
}

// add keeps the next event of a stream.
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

// from returns the events of a stream that are kept, from a number on, and the number of
// the first of them: a larger one if events have been dropped.
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
