package deadline_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/deadline"
)

func TestCloseEndsCallsAndWaitsForThem(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name   string
		around func(context.Context) (context.Context, func() time.Duration)
	}{
		{"of a plain context", func(ctx context.Context) (context.Context, func() time.Duration) {
			return ctx, func() time.Duration { return 0 }
		}},
		{"of a runner", func(ctx context.Context) (context.Context, func() time.Duration) {
			return deadline.WithTimeout(ctx, time.Hour, context.DeadlineExceeded)
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var g deadline.Calls
				around, stop := test.around(t.Context())
				defer stop()
				ctx, done, err := g.Begin(around)
				if err != nil {
					t.Fatal(err)
				}
				ended := false
				go func() {
					<-ctx.Done()
					time.Sleep(time.Minute)
					ended = true
					done()
				}()
				g.Close()
				if !ended {
					t.Error("Close returned before the call was done")
				}
				if got := deadline.Cause(ctx).Code; got != toolroom.CodeUpstreamUnavailable {
					t.Errorf("the call ended with %s, want upstream_unavailable", got)
				}
				g.Close()
				if _, _, err := g.Begin(t.Context()); toolroom.CodeOf(err) != toolroom.CodeUpstreamUnavailable {
					t.Errorf("begin after close: got %v, want upstream_unavailable", err)
				}
			})
		})
	}
}

func TestTheEndOfACallSaysWhy(t *testing.T) {
	t.Parallel()
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	expired, cancel := context.WithDeadline(t.Context(), time.Unix(0, 0))
	defer cancel()

	var g deadline.Calls
	for _, test := range []struct {
		name string
		ctx  context.Context
		want toolroom.Code
	}{
		{"cancelled", cancelled, toolroom.CodeCancelled},
		{"deadline", expired, toolroom.CodeTimeout},
	} {
		if _, _, err := g.Begin(test.ctx); toolroom.CodeOf(err) != test.want {
			t.Errorf("%s: got %v, want %s", test.name, err, test.want)
		}
	}
}
