// Package deadline ends calls: at a deadline that pauses while a person is asked ([Timer]), and
// when their source is closed ([Calls]). The time of a question does not count against any
// deadline around it.
package deadline

import (
	"context"
	"sync"
	"time"
)

// Timer is a context with a deadline that can be paused. [WithTimeout] makes one. A type
// that embeds a Timer must call Start before anything else, and Stop at the end.
type Timer struct {
	context.Context // done when the time is over, or when its parent is done
	above           *Timer
	cancel          context.CancelCauseFunc
	timer           *time.Timer
	cause           error

	mu       sync.Mutex
	open     int // number of open questions
	deadline time.Time
	since    time.Time // when the first open question was asked
	waited   time.Duration
	over     bool
}

type timerKey struct{}

// WithTimeout is like context.WithTimeoutCause, except that paused time (see [Pause]) does
// not count. stop ends the context and returns the paused time; it must be called.
func WithTimeout(parent context.Context, d time.Duration, cause error) (ctx context.Context, stop func() time.Duration) {
	t := &Timer{}
	t.Start(parent, d, cause)
	return t, t.Stop
}

// Start starts the timer. It must be called once.
func (t *Timer) Start(parent context.Context, d time.Duration, cause error) {
	t.above = Of(parent)
	t.deadline, t.cause = time.Now().Add(d), cause
	t.Context, t.cancel = context.WithCancelCause(parent)
	t.timer = time.AfterFunc(d, t.expire)
}

// Pause pauses all timers of this package around ctx until resume is called.
func Pause(ctx context.Context) (resume func()) {
	first := Of(ctx)
	for t := first; t != nil; t = t.above {
		t.pause()
	}
	return sync.OnceFunc(func() {
		for t := first; t != nil; t = t.above {
			t.resume()
		}
	})
}

// Of returns the innermost timer around ctx, or nil if there is none.
func Of(ctx context.Context) *Timer {
	t, _ := ctx.Value(timerKey{}).(*Timer)
	return t
}

// End ends the context early with a cause. Only the first end counts.
func (t *Timer) End(cause error) { t.cancel(cause) }

// Value returns the timer itself for its own key, so that inner timers find outer ones.
func (t *Timer) Value(key any) any {
	if key == (timerKey{}) {
		return t
	}
	return t.Context.Value(key)
}

func (t *Timer) expire() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.open == 0 && !time.Now().Before(t.deadline) {
		t.over = true
		t.cancel(t.cause)
	}
}

// Stop ends the context and returns the paused time.
func (t *Timer) Stop() time.Duration {
	t.timer.Stop()
	t.cancel(context.Canceled)
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.open > 0 {
		return t.waited + time.Since(t.since)
	}
	return t.waited
}

// Paused reports whether a question is open.
func (t *Timer) Paused() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.open > 0
}

func (t *Timer) pause() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.open++; t.open == 1 {
		t.timer.Stop()
		t.since = time.Now()
	}
}

func (t *Timer) resume() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.open--; t.open == 0 {
		wait := time.Since(t.since)
		t.waited += wait
		t.deadline = t.deadline.Add(wait)
		t.timer.Reset(time.Until(t.deadline))
	}
}

// Deadline returns the time of the deadline if the timer is not paused again.
func (t *Timer) Deadline() (time.Time, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if above, ok := t.Context.Deadline(); ok && above.Before(t.deadline) {
		return above, true
	}
	return t.deadline, true
}

// Err distinguishes the end of the time from cancellation.
func (t *Timer) Err() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.over {
		return context.DeadlineExceeded
	}
	return t.Context.Err()
}
