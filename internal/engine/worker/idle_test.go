package worker_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"

	"github.com/toolroom/toolroom/bridge"
	"github.com/toolroom/toolroom/internal/engine"
	"github.com/toolroom/toolroom/internal/engine/worker"
)

// serveRuns is a guest that ends after so many runs, as if the system had killed it.
func serveRuns(guest net.Conn, runs int) {
	defer guest.Close()
	w := bridge.NewWire(guest)
	_ = w.Write(bridge.Frame{Kind: bridge.Hello, Body: bridge.Map{{Key: "versions", Value: []bridge.Value{int64(1)}}}})
	for range runs {
		f, _, err := w.Read()
		if err != nil {
			return
		}
		_ = w.Write(bridge.Frame{Kind: bridge.Done, Token: f.Token, Body: bridge.Map{{Key: "value", Value: int64(1)}}})
	}
}

func TestAProgramWhoseWorkerEndedWhileItWaitedHasAnother(t *testing.T) {
	t.Parallel()
	started := 0
	runs := []int{1, 1, 0}
	e := worker.NewEngine(worker.Kind{
		Name: "test", Languages: []string{"test"}, MaxMemory: 1 << 30, Workers: 1,
		Prepare: func(*bridge.Program) (func(*bridge.Failure), *bridge.Failure) { return func(*bridge.Failure) {}, nil },
	}, func(context.Context) (worker.GuestProcess, error) {
		host, guest := net.Pipe()
		go serveRuns(guest, runs[started])
		started++
		return &captured{Conn: host}, nil
	})
	t.Cleanup(func() { _ = e.Close() })
	j := engine.Job{Owner: "a", Program: bridge.Program{Language: "test", Source: "x"}}
	for i := range 2 {
		if result, err := e.Run(t.Context(), j, &heard{}); err != nil || result.Outcome.Value != bridge.Value(int64(1)) {
			t.Fatalf("run %d: %+v, %v", i, result, err)
		}
	}
	// One that was just started and takes no program is not tried again.
	if _, err := e.Run(t.Context(), j, &heard{}); !errors.Is(err, bridge.ErrNotBegun) || !strings.Contains(err.Error(), "ended early") || started != 3 {
		t.Errorf("with a guest that takes nothing: %v after %d starts", err, started)
	}
}
