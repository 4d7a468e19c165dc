package release_test

import (
	"context"
	"slices"
	"testing"

	"github.com/toolroom/toolroom/internal/release"
)

// leaving is a store whose caller leaves as soon as something is stored.
type leaving struct {
	release.Store
	leave context.CancelFunc
}

func (l leaving) MoveRelease(ctx context.Context, m release.Move) error {
	defer l.leave()
	return l.Store.MoveRelease(ctx, m)
}

func (l leaving) SetVersionStatus(ctx context.Context, tool string, number int, status release.Status, e release.Entry) error {
	defer l.leave()
	return l.Store.SetVersionStatus(ctx, tool, number, status, e)
}

func TestAReleaseWhoseCallerHasLeftIsRecordedAndServed(t *testing.T) {
	t.Parallel()
	s := newService(t, t.TempDir())
	for _, text := range []string{"a", "b"} {
		if _, err := s.Push(t.Context(), release.Upload{Files: map[string]string{"x": text}, File: "x", Base: -1}, "ada"); err != nil {
			t.Fatal(err)
		}
	}
	var recorded []release.Action
	s.Record = func(ctx context.Context, e release.Entry, _ *release.Version, _ error) {
		if ctx.Err() == nil {
			recorded = append(recorded, e.Action)
		}
	}
	served := 0
	s.Changed = func(ctx context.Context) error {
		if ctx.Err() == nil {
			served++
		}
		return ctx.Err()
	}
	store := s.Store
	for _, do := range []func(context.Context) error{
		func(ctx context.Context) error {
			_, err := s.Release(ctx, release.Order{Tool: "fn:x", Version: 1}, "ada")
			return err
		},
		func(ctx context.Context) error { return s.Deprecate(ctx, "fn:x", 2, "wrong", false, "ada") },
	} {
		ctx, cancel := context.WithCancel(t.Context())
		s.Store = leaving{store, cancel}
		if err := do(ctx); err != nil {
			t.Error(err)
		}
		cancel()
	}
	if want := []release.Action{release.ActionRelease, release.ActionDeprecate}; !slices.Equal(recorded, want) || served != 2 {
		t.Errorf("recorded %v, served %d times", recorded, served)
	}
}
