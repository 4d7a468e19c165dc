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
	outer           *Timer
	cancel          context.CancelCauseFunc
	timer           *time.Timer
	cause           error

	mu          sync.Mutex
	questions   int // number of open questions
	deadline    time.Time
	pausedSince time.Time // when the first open question was asked
	pausedTime  time.Duration
	expired     bool
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
	t.outer = Of(parent)
	t.deadline, t.cause = time.Now().Add(d), cause
	t.Context, t.cancel = context.WithCancelCause(parent)
	t.timer = time.AfterFunc(d, t.expire)
}

// Pause pauses all timers of this package around ctx until resume is called.
func Pause(ctx context.Context) (resume func()) {
	first := Of(ctx)
	for t := first; t != nil; t = t.outer {
		t.pause()
	}
	return sync.OnceFunc(func() {
		for t := first; t != nil; t = t.outer {
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
	if t.questions == 0 && !time.Now().Before(t.deadline) {
		t.expired = true
		t.cancel(t.cause)
	}
}

// Stop ends the context and returns the paused time.
func (t *Timer) Stop() time.Duration {
	t.timer.Stop()
	t.cancel(context.Canceled)
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.questions > 0 {
		return t.pausedTime + time.Since(t.pausedSince)
	}
	return t.pausedTime
}

// Paused reports whether a question is open.
func (t *Timer) Paused() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.questions > 0
}

func (t *Timer) pause() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.questions++; t.questions == 1 {
		t.timer.Stop()
		t.pausedSince = time.Now()
	}
}

func (t *Timer) resume() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.questions--; t.questions == 0 {
		wait := time.Since(t.pausedSince)
		t.pausedTime += wait
		t.deadline = t.deadline.Add(wait)
		t.timer.Reset(time.Until(t.deadline))
	}
}

// Deadline returns the time of the deadline if the timer is not paused again.
func (t *Timer) Deadline() (time.Time, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if outer, ok := t.Context.Deadline(); ok && outer.Before(t.deadline) {
		return outer, true
	}
	return t.deadline, true
}

// Err returns context.DeadlineExceeded after the deadline, and the error of the parent after
// cancellation.
func (t *Timer) Err() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.expired {
		return context.DeadlineExceeded
	}
	return t.Context.Err()
}
