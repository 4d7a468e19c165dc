package run

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/toolroom/toolroom"
)

type sinkKey struct{}

// WithSink makes sink receive the events of calls run with ctx, in order. sink
// may block: that is the backpressure on the tool. It is not called for child
// calls.
func WithSink(ctx context.Context, sink func(toolroom.Event)) context.Context {
	return context.WithValue(ctx, sinkKey{}, sink)
}

// emit sends an event of this call to its sink and to the bus.
func (p *pass) emit(e toolroom.Event) {
	if p.ended.Load() || p.sink == nil && !p.Bus.listening() {
		return
	}
	e.Call, e.Parent, e.Tool, e.Identity = p.call.ID, p.call.Parent, p.tool, p.call.Identity
	if e.Time.IsZero() {
		e.Time = p.Now()
	}
	p.maskEvent(&e)
	switch {
	case e.Kind == toolroom.EventChunk && p.Secrets != nil:
		p.chunks.add(p.Secrets, e, p.send)
		return
	case e.Final():
		p.chunks.flush(p.send)
	}
	p.send(e)
}

func (p *pass) send(e toolroom.Event) {
	p.Bus.publish(e)
	if p.sink != nil && p.parent == nil {
		p.sink(e)
	}
}

// Bus carries the events of all calls to whoever subscribes. The zero Bus is
// ready. A slow subscriber never holds up a call: it loses progress, chunk and
// log events, counted, but never the end of a call.
type Bus struct {
	count atomic.Int64
	mu    sync.RWMutex
	subs  map[*Subscription]struct{}
}

// subscriptionQueue is how many events wait for a slow subscriber before it
// begins to lose those that may be lost.
const subscriptionQueue = 1024

// Subscription is one subscriber's queue.
type Subscription struct {
	bus    *Bus
	filter func(*toolroom.Event) bool

	mu      sync.Mutex
	queue   []toolroom.Event
	dropped int
	wake    chan struct{}
}

// Subscribe starts to gather the events that filter accepts (nil: all). Close
// the subscription when done.
func (b *Bus) Subscribe(filter func(*toolroom.Event) bool) *Subscription {
	s := &Subscription{bus: b, filter: filter, wake: make(chan struct{}, 1)}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.subs == nil {
		b.subs = map[*Subscription]struct{}{}
	}
	b.subs[s] = struct{}{}
	b.count.Add(1)
	return s
}

// Close ends the subscription. It is idempotent.
func (s *Subscription) Close() {
	s.bus.mu.Lock()
	defer s.bus.mu.Unlock()
	if _, ok := s.bus.subs[s]; ok {
		delete(s.bus.subs, s)
		s.bus.count.Add(-1)
	}
}

// Next waits for events and returns all that have come, in order, and how many
// were lost since the last time. It returns ctx's error when ctx ends.
func (s *Subscription) Next(ctx context.Context) (events []toolroom.Event, dropped int, err error) {
	for {
		s.mu.Lock()
		events, dropped = s.queue, s.dropped
		s.queue, s.dropped = nil, 0
		s.mu.Unlock()
		if len(events) > 0 || dropped > 0 {
			return events, dropped, nil
		}
		select {
		case <-s.wake:
		case <-ctx.Done():
			return nil, 0, ctx.Err()
		}
	}
}

func (b *Bus) listening() bool { return b.count.Load() > 0 }

func (b *Bus) publish(e toolroom.Event) {
	if !b.listening() {
		return
	}
	b.mu.RLock()
	defer b.mu.RUnlock()
	for s := range b.subs {
		if s.wants(e) {
			s.add(e)
		}
	}
}

// wants lends the filter a copy, so that only filtered events go to the heap.
func (s *Subscription) wants(e toolroom.Event) bool {
	if s.filter == nil {
		return true
	}
	lent := e
	return s.filter(&lent)
}

func (s *Subscription) add(e toolroom.Event) {
	s.mu.Lock()
	if len(s.queue) < subscriptionQueue || e.Final() || e.Kind == toolroom.EventCalled || e.Kind == toolroom.EventApproval {
		s.queue = append(s.queue, e)
	} else {
		s.dropped++
	}
	s.mu.Unlock()
	select {
	case s.wake <- struct{}{}:
	default:
	}
}
