package run

import (
	"cmp"
	"context"
	"encoding/json"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/panics"
	"github.com/toolroom/toolroom/internal/receipt"
	"github.com/toolroom/toolroom/internal/secret"
)

// stream delivers the events of one call.
type stream struct {
	sink   func(toolroom.Event) // of the surface, nil for child calls
	chunks chunks
	logs   logs
	// ended discards the events of a tool that outlives its call.
	ended atomic.Bool
}

// emit sends an event of the call to its sink and to the bus.
func (c *call) emit(e toolroom.Event) {
	if c.stream.ended.Load() {
		return
	}
	if e.Kind == toolroom.EventLog && e.Log != nil && c.runner.Receipts != nil {
		c.stream.logs.add(c.runner.Now(), e.Log)
	}
	if !c.hasListeners() {
		return
	}
	e.Call, e.Parent, e.Tool, e.Identity = c.request.ID, c.request.Parent, c.tool, c.request.Identity
	if e.Time.IsZero() {
		e.Time = c.runner.Now()
	}
	safe := false
	panics.Log(c.runner.Log, "redacting an event", func() {
		secrets := c.runner.Secrets
		redactEvent(secrets, &e)
		switch {
		case e.Kind == toolroom.EventChunk && secrets != nil:
			c.stream.chunks.add(secrets, e, c.send)
			return
		case e.Final():
			safe = true // its result has been redacted
			c.stream.chunks.flush(secrets, c.send)
		}
		safe = true
	})
	if safe {
		c.send(e)
	}
}

// hasListeners reports whether the events of the call have receivers.
func (c *call) hasListeners() bool { return c.stream.sink != nil || c.runner.Bus.hasSubscribers() }

// send delivers an event to all subscribers. One that panics affects neither the
// others nor the call.
func (c *call) send(e toolroom.Event) {
	if err := c.runner.Bus.publish(e); err != nil {
		c.runner.Log.Error("an event filter panicked", "call", c.request.ID, "error", err)
	}
	if c.stream.sink != nil {
		panics.Log(c.runner.Log, "an event subscriber", func() { c.stream.sink(e) })
	}
}

// Bus delivers the events of all calls to its subscribers. The zero Bus is ready
// to use. A slow subscriber never delays a call: it loses progress, chunk and log
// events, which are counted, but never the end of a call.
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

// Subscribe starts to collect the events that filter accepts; nil accepts all. The caller
// must close the subscription.
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

// Next waits for events and returns all that have arrived, in order, and the number of
// events lost since the last time. It returns ctx's error when ctx ends.
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

func (b *Bus) hasSubscribers() bool { return b.count.Load() > 0 }

// publish returns the panics of filters, whose subscribers do not get the event.
func (b *Bus) publish(e toolroom.Event) (panicked error) {
	if !b.hasSubscribers() {
		return nil
	}
	b.mu.RLock()
	defer b.mu.RUnlock()
	for s := range b.subs {
		err := panics.Catch(func() {
			if s.accepts(e) {
				s.add(e)
			}
		})
		panicked = cmp.Or(panicked, err)
	}
	return panicked
}

// accepts gives the filter a copy, so that only accepted events escape to the heap.
func (s *Subscription) accepts(e toolroom.Event) bool {
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

// logs collects the first lines that a tool logs, for its receipt. The output of a program is
// added at the end.
type logs struct {
	mu     sync.Mutex
	lines  []toolroom.LogLine
	bytes  int
	hidden int
}

func (l *logs) add(now time.Time, line *toolroom.Log) {
	l.mu.Lock()
	defer l.mu.Unlock()
	size := len(line.Message) + len(line.Data)
	if len(l.lines) == receipt.MaxLogLines || l.bytes+size > receipt.MaxLogBytes {
		l.hidden++
		return
	}
	l.bytes += size
	l.lines = append(l.lines, toolroom.LogLine{Time: now.UTC(), Level: cmp.Or(line.Level, "info"), Message: line.Message, Data: line.Data})
}

// forReceipt returns the lines without secrets, followed by the output of the program.
func (l *logs) forReceipt(secrets *secret.Redactor, ended time.Time, x *toolroom.Execution) (lines []toolroom.LogLine, hidden int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, line := range l.lines {
		line.Message, line.Data = secrets.Text(line.Message), secrets.Redact(line.Data)
		if len(line.Data) > 0 && !json.Valid(line.Data) {
			line.Data = nil
		}
		lines = append(lines, line)
	}
	if x == nil {
		return lines, l.hidden
	}
	for _, printed := range []struct{ stream, text string }{{"stdout", x.Stdout}, {"stderr", x.Stderr}} {
		if printed.text != "" {
			text := strings.ToValidUTF8(printed.text[:min(len(printed.text), receipt.MaxPrintBytes)], "")
			lines = append(lines, toolroom.LogLine{Time: ended.UTC(), Level: printed.stream, Message: text})
		}
	}
	return lines, l.hidden
}
