// Package patience has deadlines that wait for people: time in which a person
// is asked counts against none of the deadlines around the question.
package patience

import (
	"context"
	"sync"
	"time"
)

// Clock is a context with a deadline that can be put off. [WithTimeout] makes
// one; who has a struct of its own around it calls Start before anything else,
// and Stop in the end.
type Clock struct {
	context.Context // ends when the time is over, and with its parent
	above           *Clock
	cancel          context.CancelCauseFunc
	timer           *time.Timer
	cause           error

	mu       sync.Mutex
	open     int // questions that wait
	deadline time.Time
	since    time.Time // when the first of the open questions was put
	waited   time.Duration
	over     bool
}

type clockKey struct{}

// WithTimeout is context.WithTimeoutCause, but for the time that [Hold] takes
// out. stop ends the context and says how much time that was; it must be called.
func WithTimeout(parent context.Context, d time.Duration, cause error) (ctx context.Context, stop func() time.Duration) {
	c := &Clock{}
	c.Start(parent, d, cause)
	return c, c.Stop
}

// Start begins the time. It is called once.
func (c *Clock) Start(parent context.Context, d time.Duration, cause error) {
	c.above = Of(parent)
	c.deadline, c.cause = time.Now().Add(d), cause
	c.Context, c.cancel = context.WithCancelCause(parent)
	c.timer = time.AfterFunc(d, c.expire)
}

// Hold stops the clocks of all deadlines that this package has put around ctx,
// until resume is called.
func Hold(ctx context.Context) (resume func()) {
	first := Of(ctx)
	for c := first; c != nil; c = c.above {
		c.pause()
	}
	return sync.OnceFunc(func() {
		for c := first; c != nil; c = c.above {
			c.resume()
		}
	})
}

// Of is the nearest clock around ctx, nil if there is none.
func Of(ctx context.Context) *Clock {
	c, _ := ctx.Value(clockKey{}).(*Clock)
	return c
}

// End ends the context before its time, for that cause. Only the first end counts.
func (c *Clock) End(cause error) { c.cancel(cause) }

// Value finds the clock itself, so that clocks within find those without.
func (c *Clock) Value(key any) any {
	if key == (clockKey{}) {
		return c
	}
	return c.Context.Value(key)
}

func (c *Clock) expire() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.open == 0 && !time.Now().Before(c.deadline) {
		c.over = true
		c.cancel(c.cause)
	}
}

// Stop ends the context, and says how much time was taken out.
func (c *Clock) Stop() time.Duration {
	c.timer.Stop()
	c.cancel(context.Canceled)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.open > 0 {
		return c.waited + time.Since(c.since)
	}
	return c.waited
}

func (c *Clock) pause() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.open++; c.open == 1 {
		c.timer.Stop()
		c.since = time.Now()
	}
}

func (c *Clock) resume() {
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
func (c *Clock) Deadline() (time.Time, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if above, ok := c.Context.Deadline(); ok && above.Before(c.deadline) {
		return above, true
	}
	return c.deadline, true
}

// Err tells the end of the time from a cancel.
func (c *Clock) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over {
		return context.DeadlineExceeded
	}
	return c.Context.Err()
}
