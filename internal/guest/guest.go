//go:build unix

package guest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"

	"github.com/toolroom/toolroom/bridge"
)

// Options of a guest.
type Options struct {
	// Token is the one that the driver gave to this guest, if any.
	Token []byte
	// Work is the folder in which the program runs, and the only one that the
	// guest writes to; the system's folder for temporary files if empty.
	Work string
	// Hold is what [HoldEnv] asks for, Ahead what [AheadEnv] does, and Egress what
	// [EgressEnv] does.
	Hold, Ahead, Egress bool
}

// Serve runs the one program that the host sends over stream, and returns when
// it has ended and the host knows how.
func Serve(ctx context.Context, stream io.ReadWriteCloser, o Options) error {
	work, err := os.MkdirTemp(o.Work, "r")
	if err != nil {
		return fmt.Errorf("make a folder for the program: %w", err)
	}
	defer os.RemoveAll(work)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	host := bridge.NewWire(stream, 0)
	r := &run{host: host, work: work, waiting: map[uint64]chan<- bridge.Frame{}, prepared: make(chan struct{})}
	r.children.adopt()
	var proxy net.Listener
	if o.Egress {
		if proxy, err = r.listenProxy(); err != nil {
			return fmt.Errorf("make the proxy's socket: %w", err)
		}
		defer proxy.Close()
	}
	if o.Hold {
		if err := r.hold(ctx, stream); err != nil {
			return ignoreEOF(err)
		}
	}
	hello := bridge.Map{{Key: "versions", Value: []bridge.Value{int64(bridge.Version)}}, {Key: "guest", Value: "toolroom-guest"}}
	if err := host.Write(bridge.Frame{Kind: bridge.Hello, Token: o.Token, Body: hello}); err != nil {
		return fmt.Errorf("say hello: %w", err)
	}
	begun := make(chan struct{})
	if o.Ahead && !o.Hold {
		go r.wait(ctx, begun)
	} else {
		close(r.prepared)
	}
	start, _, err := host.Read()
	close(begun)
	if err != nil {
		return ignoreEOF(err)
	}
	if start.Kind != bridge.Start {
		return fmt.Errorf("the host sent %s in place of a program: %s", start.Kind, start.Body.Text("reason"))
	}
	r.start, r.program = start, bridge.ReadProgram(start.Body)
	if proxy != nil {
		r.lines = bridge.NewLines(func(id uint64, body bridge.Map) error { return r.tell(bridge.Out, id, body) })
		defer r.lines.Close()
		go r.serveProxy(ctx, proxy)
	}
	go func() {
		r.listen()
		cancel() // the host is gone: nothing must go on
	}()
	return r.execute(ctx)
}

func ignoreEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// run is the one run of this process.
type run struct {
	host    *bridge.Wire
	start   bridge.Frame
	program bridge.Program
	work    string
	ahead   *interpreting // prepared before the program came, or nil; known once prepared is closed
	env     []string      // of the program, beside the guest's own
	lines   *bridge.Lines // to the outside, or nil

	prepared chan struct{}
	children children

	mu      sync.Mutex
	child   *bridge.Wire // an interpreter that speaks the bridge itself
	next    uint64
	waiting map[uint64]chan<- bridge.Frame // questions of commands
}

// listen passes on what the host says, until it says no more.
func (r *run) listen() {
	for {
		f, _, err := r.host.Read()
		if err != nil {
			return
		}
		r.mu.Lock()
		child, answer := r.child, r.waiting[f.ID]
		delete(r.waiting, f.ID)
		r.mu.Unlock()
		switch {
		case f.Kind == bridge.In:
			if r.lines == nil || r.lines.Take(f) != nil {
				return
			}
		case child != nil:
			_ = child.Write(f) // a child that has gone is noticed by who waits for it
		case answer != nil && f.Kind == bridge.Result:
			answer <- f
		}
	}
}

// tell sends the host a frame of this run.
func (r *run) tell(kind bridge.Kind, id uint64, body bridge.Map) error {
	return r.host.Write(bridge.Frame{Kind: kind, ID: id, Token: r.start.Token, Body: body})
}

// ask puts a question to the host and waits for its result.
func (r *run) ask(ctx context.Context, kind bridge.Kind, body bridge.Map) (bridge.Map, error) {
	answer := make(chan bridge.Frame, 1)
	r.mu.Lock()
	r.next++
	id := r.next
	r.waiting[id] = answer
	r.mu.Unlock()
	if err := r.tell(kind, id, body); err != nil {
		return nil, err
	}
	select {
	case f := <-answer:
		return f.Body, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (r *run) execute(ctx context.Context) error {
	ahead := r.take()
	switch r.program.Language {
	case "python", "javascript", "wasm":
		return r.interpret(ctx, ahead)
	case "shell", "command":
		return r.command(ctx)
	}
	return r.fail(&bridge.Failure{
		Kind:    bridge.FailUnsupported,
		Message: fmt.Sprintf("the guest runs python, javascript, wasm, shell and commands, not %q", r.program.Language),
	}, 0)
}

func (r *run) fail(f *bridge.Failure, exit int) error {
	return r.tell(bridge.Failed, 0, append(bridge.FailureBody(f), bridge.Member{Key: "exit", Value: int64(exit)}))
}
