package turn_test

import (
	"context"
	"errors"
	"testing"

	"github.com/toolroom/toolroom/drivers/turn"
)

func TestAValueIsMadeUntilThatSucceeds(t *testing.T) {
	t.Parallel()
	calls := 0
	get := turn.Once(func(context.Context) (int, error) {
		if calls++; calls < 3 {
			return calls, errors.New("not yet")
		}
		return calls, nil
	})
	for i, want := range []int{0, 0, 3, 3} {
		if got, err := get(t.Context()); got != want || (err != nil) != (want == 0) {
			t.Errorf("call %d: %d, %v, want %d", i, got, err, want)
		}
	}
}

func TestACallerWhoseTimeIsOverDoesNotWaitForATurn(t *testing.T) {
	t.Parallel()
	held := turn.New()
	end, err := held.Take(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	over := errors.New("its time is over")
	late, cancel := context.WithCancelCause(t.Context())
	cancel(over)
	if _, err := held.Take(late); !errors.Is(err, over) {
		t.Errorf("a turn that another has: %v", err)
	}
	end()
	if _, err := held.Take(late); !errors.Is(err, over) {
		t.Errorf("a turn that nobody has: %v", err)
	}
	if _, err := held.Take(t.Context()); err != nil {
		t.Errorf("a caller with time: %v", err)
	}
}
