package worker_test

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toolroom/toolroom/bridge"
	"github.com/toolroom/toolroom/internal/engine"
	"github.com/toolroom/toolroom/internal/engine/worker"
)

func TestAWorkerReceivesAModuleOnceUntilItReceivesAnother(t *testing.T) {
	t.Parallel()
	var received []string // the language of each program, and its module
	e := worker.NewEngine(worker.Kind{
		Name: "test", Languages: []string{"test"}, MaxMemory: 1 << 30, Workers: 1, Compile: "compile", CompileTime: time.Minute,
		Prepare: func(*bridge.Program) (func(*bridge.Failure), *bridge.Failure) { return func(*bridge.Failure) {}, nil },
	}, func(context.Context) (worker.GuestProcess, error) {
		host, guest := net.Pipe()
		go func() {
			defer guest.Close()
			w := bridge.NewWire(guest)
			_ = w.Write(bridge.Frame{Kind: bridge.Hello, Body: bridge.Map{{Key: "versions", Value: []bridge.Value{int64(1)}}}})
			for {
				f, _, err := w.Read()
				if err != nil {
					return
				}
				p := bridge.ReadProgram(f.Body)
				received = append(received, p.Language+" "+string(p.Module))
				answer := bridge.Frame{Kind: bridge.Done, Token: f.Token, Body: bridge.Map{{Key: "value", Value: int64(1)}}}
				if string(p.Module) == "bad" {
					answer.Kind, answer.Body = bridge.Failed, bridge.FailureBody(&bridge.Failure{Kind: bridge.FailCheck, Message: "no module"})
				}
				_ = w.Write(answer)
			}
		}()
		return &captured{Conn: host}, nil
	})
	t.Cleanup(func() { _ = e.Close() })
	for _, module := range []string{"a", "a", "b", "a", "bad", "bad", "a", "a"} {
		j := engine.Job{Owner: "one", Program: bridge.Program{Language: "test", Module: []byte(module)}}
		result, err := e.Run(t.Context(), j, &heard{})
		if err != nil || (result.Outcome.Failure != nil) != (module == "bad") {
			t.Fatalf("the module %s: %+v, %v", module, result, err)
		}
	}
	want := []string{
		"compile a", "test ", "test ", "compile b", "test ", "compile a", "test ",
		"compile bad", "compile bad", "compile a", "test ", "test ",
	}
	if diff := cmp.Diff(want, received); diff != "" {
		t.Errorf("the worker received something else (-want +got):\n%s", diff)
	}
}
