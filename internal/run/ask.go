package run

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"github.com/toolroom/toolroom/source"
)

type askerKey struct{}

// WithAsker makes asker take the questions of tools that are called with ctx,
// and of tools that those call. Without it they can ask nobody.
func WithAsker(ctx context.Context, asker source.Asker) context.Context {
	return context.WithValue(ctx, askerKey{}, asker)
}

// patientAsker stops the clock of its call while a question is open.
type patientAsker struct {
	source.Asker
	clock *clock
}

// Ask waits for the answers off the clock.
func (a patientAsker) Ask(ctx context.Context, questions map[string]source.Question) (map[string]json.RawMessage, error) {
	a.clock.pause()
	defer a.clock.resume()
	return a.Asker.Ask(ctx, questions)
}

// clock is a context with a deadline that can be put off: time in which a
// question waits for its answer does not count.
type clock struct {
	context.Context // ends when the time is over, and with its parent
	cancel          context.CancelFunc
	timer           *time.Timer

	mu       sync.Mutex
	open     int // questions that wait
	deadline time.Time
	since    time.Time // when the first of the open questions was put
	waited   time.Duration
	over     bool
}

func startClock(parent context.Context, d time.Duration) *clock {
	c := &clock{deadline: time.Now().Add(d)}
	c.Context, c.cancel = context.WithCancel(parent)
	c.timer = time.AfterFunc(d, c.expire)
	return c
}

func (c *clock) expire() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.open == 0 && !time.Now().Before(c.deadline) {
		c.over = true
		c.cancel()
	}
}

// stop ends the clock and says how long questions waited.
func (c *clock) stop() time.Duration {
	c.timer.Stop()
	c.cancel()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.open > 0 {
		return c.waited + time.Since(c.since)
	}
	return c.waited
}

func (c *clock) pause() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.open++; c.open == 1 {
		c.timer.Stop()
		c.since = time.Now()
	}
}

func (c *clock) resume() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.open--; c.open == 0 {
		wait := time.Since(c.since)
		c.waited += wait
		c.deadline = c.deadline.Add(wait)
		c.timer.Reset(time.Until(c.deadline))
	}
}

// Deadline is when the time will be over if nothing more is asked.
func (c *clock) Deadline() (time.Time, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if above, ok := c.Context.Deadline(); ok && above.Before(c.deadline) {
		return above, true
	}
	return c.deadline, true
}

// Err tells the end of the time from a cancel.
func (c *clock) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over {
		return context.DeadlineExceeded
	}
	return c.Context.Err()
}
