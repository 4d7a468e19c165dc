package worker_test

import (
	"context"
	"errors"
	"net"
	"sync"
	"testing"

	"github.com/toolroom/toolroom/bridge"
	"github.com/toolroom/toolroom/internal/engine"
	"github.com/toolroom/toolroom/internal/engine/worker"
)

// captured is a worker process that an attacker controls, so that the attacker
// writes its frames. Programs in our interpreters have no stream of their own, so
// this is the case that the token protects against.
type captured struct {
	net.Conn
	ended sync.Once
}

func (*captured) Isolation() string    { return "none" }
func (*captured) StderrSuffix() string { return "" }
func (c *captured) End()               { c.ended.Do(func() { _ = c.Close() }) }

// heard is a call handler that records its requests.
type heard struct {
	bridge.Handler
	mu    sync.Mutex
	calls []string
}

func (h *heard) Call(_ context.Context, tool string, _ bridge.Map) (bridge.Value, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.calls = append(h.calls, tool)
	return nil, nil
}

func (*heard) Print(string, string) {}

// connected returns the two ends of a stream that buffers some bytes, as the
// streams of workers do.
func connected(t *testing.T) (host, guest net.Conn) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if guest, err = net.Dial("tcp", l.Addr().String()); err != nil {
		t.Fatal(err)
	}
	if host, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { host.Close(); guest.Close() })
	return host, guest
}

func TestACapturedWorkerCannotUseTheTokenOfAnEarlierRun(t *testing.T) {
	t.Parallel()
	question := bridge.Map{{Key: "tool", Value: "late:call"}, {Key: "arguments", Value: bridge.Map{}}}
	done := func(w *bridge.Wire, token []byte) {
		_ = w.Write(bridge.Frame{Kind: bridge.Done, Token: token, Body: bridge.Map{{Key: "value", Value: int64(1)}}})
	}
	ask := func(w *bridge.Wire, token []byte) {
		_ = w.Write(bridge.Frame{Kind: bridge.Call, ID: 1, Token: token, Body: question})
	}
	for name, attack := range map[string]func(w *bridge.Wire, first bridge.Frame, next func() bridge.Frame){
		"a call after done": func(w *bridge.Wire, first bridge.Frame, next func() bridge.Frame) {
			done(w, first.Token)
			ask(w, first.Token)
			next()
		},
		"a call of the second run with the token of the first": func(w *bridge.Wire, first bridge.Frame, next func() bridge.Frame) {
			done(w, first.Token)
			next()
			ask(w, first.Token)
		},
		"the end of the second run with the token of the first": func(w *bridge.Wire, first bridge.Frame, next func() bridge.Frame) {
			done(w, first.Token)
			next()
			done(w, first.Token)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var places []*captured
			start := func(context.Context) (worker.GuestProcess, error) {
				host, guest := connected(t)
				place := &captured{Conn: host}
				places = append(places, place)
				go func() {
					w := bridge.NewWire(guest)
					next := func() bridge.Frame {
						f, _, err := w.Read()
						if err != nil {
							return bridge.Frame{}
						}
						return f
					}
					_ = w.Write(bridge.Frame{Kind: bridge.Hello, Body: bridge.Map{{Key: "versions", Value: []bridge.Value{int64(1)}}}})
					first := next()
					attack(w, first, next)
					next()
				}()
				return place, nil
			}
			e := worker.NewEngine(worker.Kind{
				Name: "test", Languages: []string{"test"}, MaxMemory: 1 << 30, Workers: 1,
				Prepare: func(*bridge.Program) (func(*bridge.Failure), *bridge.Failure) { return func(*bridge.Failure) {}, nil },
			}, start)
			t.Cleanup(func() { _ = e.Close() })
			h := &heard{}
			j := engine.Job{Owner: "a", Program: bridge.Program{Language: "test", Source: "x"}}
			if result, err := e.Run(t.Context(), j, h); err != nil || result.Outcome.Value != bridge.Value(int64(1)) {
				t.Fatalf("the first run: %+v, %v", result, err)
			}
			_, err := e.Run(t.Context(), j, h)
			if !errors.Is(err, bridge.ErrProtocol) {
				t.Errorf("the second run ended with %v, want a breach of the protocol", err)
			}
			if len(h.calls) > 0 {
				t.Errorf("the handler answered %v", h.calls)
			}
			if _, err := places[0].Write([]byte{0}); err == nil {
				t.Error("the worker is still running")
			}
		})
	}
}
