package deadline_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toolroom/toolroom/internal/deadline"
)

var errOver = errors.New("over")

func TestPausedTimeCountsAgainstNoDeadline(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		outer, stopOuter := deadline.WithTimeout(t.Context(), 10*time.Second, errOver)
		between, cancel := context.WithCancel(outer)
		defer cancel()
		inner, stopInner := deadline.WithTimeout(between, 5*time.Second, errOver)
		time.Sleep(4 * time.Second)
		resume := deadline.Pause(inner)
		time.Sleep(time.Hour)
		if inner.Err() != nil || outer.Err() != nil {
			t.Fatalf("the time was over during a pause: %v, %v", inner.Err(), outer.Err())
		}
		resume()
		resume() // the second call does nothing
		time.Sleep(2 * time.Second)
		if !errors.Is(inner.Err(), context.DeadlineExceeded) || !errors.Is(context.Cause(inner), errOver) {
			t.Errorf("the inner deadline is %v because of %v", inner.Err(), context.Cause(inner))
		}
		if outer.Err() != nil {
			t.Errorf("the outer deadline passed with the inner one: %v", outer.Err())
		}
		time.Sleep(5 * time.Second)
		if !errors.Is(outer.Err(), context.DeadlineExceeded) {
			t.Errorf("the outer deadline did not pass: %v", outer.Err())
		}
		if waited := stopInner(); waited != time.Hour {
			t.Errorf("the paused time is %s", waited)
		}
		stopOuter()
	})
}

func TestACancellationIsNotADeadline(t *testing.T) {
	t.Parallel()
	parent, cancel := context.WithCancel(t.Context())
	ctx, stop := deadline.WithTimeout(parent, time.Hour, errOver)
	defer stop()
	cancel()
	<-ctx.Done()
	if !errors.Is(ctx.Err(), context.Canceled) || !errors.Is(context.Cause(ctx), context.Canceled) {
		t.Errorf("the context ended with %v because of %v", ctx.Err(), context.Cause(ctx))
	}
}

func TestPauseWithoutATimerDoesNothing(t *testing.T) {
	t.Parallel()
	deadline.Pause(t.Context())()
}
