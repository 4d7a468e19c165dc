package monty

import (
	"os"
	"testing"

	"github.com/toolroom/toolroom/bridge"
	"github.com/toolroom/toolroom/internal/engine"
)

// quiet is a host without tools.
type quiet struct{ bridge.Handler }

func TestAProgramWhoseWorkerEndedWhileItWaitedHasAnother(t *testing.T) {
	t.Parallel()
	path := os.Getenv("TOOLROOM_MONTY")
	if path == "" {
		t.Skip("TOOLROOM_MONTY does not say where monty is")
	}
	e := New(Options{Find: func() (string, error) { return path, nil }})
	t.Cleanup(func() { _ = e.Close() })
	for i, ends := range []bool{false, true, false} {
		j := engine.Job{Owner: "a", Program: bridge.Program{Language: "python", Source: "1 + 1"}}
		result, err := e.Run(t.Context(), j, quiet{})
		if err != nil || result.Outcome.Value != bridge.Value(int64(2)) {
			t.Fatalf("run %d: %+v, %v", i, result, err)
		}
		if w, err := e.pool.Acquire(t.Context(), "a"); err != nil {
			t.Fatal(err)
		} else {
			if ends {
				w.End() // as if the system had killed it
			}
			e.pool.Release(w, true)
		}
	}
}
