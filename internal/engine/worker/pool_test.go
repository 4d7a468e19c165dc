package worker_test

import (
	"context"
	"testing"

	"github.com/toolroom/toolroom/internal/engine/worker"
)

// mark is a worker that does nothing.
type mark struct{ number int }

func (*mark) Isolation() string { return "wasm" }
func (*mark) End()              {}

func TestToLookAtAnEngineStartsItsFirstWorkerAlone(t *testing.T) {
	t.Parallel()
	started := 0
	pool := worker.NewPool("js", 2, func(context.Context) (*mark, error) {
		started++
		return &mark{started}, nil
	})
	defer pool.Close()
	if reach, err := pool.Reach(t.Context()); err != nil || reach != "wasm" || started != 1 {
		t.Fatalf("the first look reaches %q (%v), with %d workers", reach, err, started)
	}
	w, err := pool.Acquire(t.Context(), "ann")
	if err != nil || w.number != 1 {
		t.Fatalf("the first run got worker %v (%v), not the one that waits", w, err)
	}
	pool.Release(w, true) // now it is ann's
	if _, err := pool.Reach(t.Context()); err != nil || started != 1 {
		t.Errorf("another look started a worker: there are %d (%v)", started, err)
	}
}
