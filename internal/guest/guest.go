//go:build unix

package guest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/toolroom/toolroom/bridge"
)

// Options configures a guest.
type Options struct {
	// Token is the token that the driver gave this guest, if any.
	Token []byte
	// Work is the folder in which the program runs, and the only one that the guest
	// writes to. If it is empty, it is the system's folder for temporary files.
	Work string
	// Hold, Ahead, Egress and Alive are set by [HoldEnv], [AheadEnv], [EgressEnv] and
	// [AliveEnv].
	Hold, Ahead, Egress, Alive bool
}

// Serve runs the one program that the server sends over stream. It returns when the
// program has ended and the server has been sent its outcome.
func Serve(ctx context.Context, stream io.ReadWriteCloser, o Options) error {
	work, err := os.MkdirTemp(o.Work, "r")
	if err != nil {
		return fmt.Errorf("make a folder for the program: %w", err)
	}
	defer os.RemoveAll(work)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	server := bridge.NewWire(stream)
	r := &run{server: server, work: work, waiting: map[uint64]chan<- bridge.Frame{}, prepared: make(chan struct{})}
	r.children.adopt()
	var proxy net.Listener
	if o.Egress {
		if proxy, err = r.listenProxy(); err != nil {
			return fmt.Errorf("make the proxy's socket: %w", err)
		}
		defer proxy.Close()
	}
	if o.Hold {
		if err := r.waitForRelease(ctx, stream); err != nil {
			return ignoreEOF(err)
		}
	}
	hello := bridge.Map{{Key: "versions", Value: []bridge.Value{int64(bridge.Version)}}, {Key: "guest", Value: "toolroom-guest"}}
	if o.Alive {
		hello = append(hello, bridge.Member{Key: "alive", Value: true})
		r.watch = newWatchdog(AliveTimeout, func() { os.Exit(1) }) // what it started ends with the first process of a sandbox
	}
	if err := server.Write(bridge.Frame{Kind: bridge.Hello, Token: o.Token, Body: hello}); err != nil {
		return fmt.Errorf("say hello: %w", err)
	}
	begun := make(chan struct{})
	if o.Ahead && !o.Hold {
		go r.prepareAhead(ctx, begun)
	} else {
		close(r.prepared)
	}
	start, err := r.read()
	close(begun)
	if err != nil {
		return ignoreEOF(err)
	}
	if start.Kind != bridge.Start {
		return fmt.Errorf("the server sent %s instead of a program: %s", start.Kind, start.Body.Text("reason"))
	}
	r.start, r.program = start, bridge.ReadProgram(start.Body)
	if proxy != nil || r.program.Attached {
		r.lines = bridge.NewLines(func(id uint64, body bridge.Map) error { return r.send(bridge.Out, id, body) })
		defer r.lines.Close()
	}
	if proxy != nil {
		go r.serveProxy(ctx, proxy)
	}
	go func() {
		cancel(r.listen()) // the server is gone: stop everything
	}()
	return r.execute(ctx)
}

func ignoreEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// run is the only run of this process.
type run struct {
	server  *bridge.Wire
	start   bridge.Frame
	program bridge.Program
	work    string
	ahead   *interpreterProcess // prepared before the program came, or nil; valid once prepared is closed
	env     []string            // the program's additional environment
	lines   *bridge.Lines       // connections to the outside, or nil

	prepared chan struct{}
	children children
	watch    *watchdog // of the server, or nil

	mu      sync.Mutex
	child   *bridge.Wire   // an interpreter that speaks the bridge protocol itself and has been sent the program
	early   []bridge.Frame // those for an interpreter that has not been sent the program
	next    uint64
	waiting map[uint64]chan<- bridge.Frame // unanswered requests of commands
}

// errBroken is the cause if the stream fails and the server did not end it.
var errBroken = errors.New("the stream to the server broke")

// listen forwards the server's frames until the stream ends. It returns nil if the
// server ended the stream, and the reason otherwise.
func (r *run) listen() error {
	for {
		f, err := r.read()
		if err != nil {
			if errors.Is(err, bridge.ErrProtocol) {
				return fmt.Errorf("%w: %w", errBroken, err)
			}
			return nil
		}
		r.mu.Lock()
		child, answer := r.child, r.waiting[f.ID]
		delete(r.waiting, f.ID)
		if child == nil && r.interpreted() && f.Kind != bridge.In {
			r.early = append(r.early, f)
		}
		r.mu.Unlock()
		switch {
		case f.Kind == bridge.In:
			if r.lines == nil {
				return fmt.Errorf("%w: unexpected egress data", errBroken)
			}
			if err := r.lines.Handle(f); err != nil {
				return fmt.Errorf("%w: %w", errBroken, err)
			}
		case child != nil:
			r.watch.extend(time.Duration(r.program.Limits.WithDefaults().Wall) * time.Millisecond)
			_ = child.Write(f) // the goroutine that waits for the child notices if it has ended
		case answer != nil && f.Kind == bridge.Result:
			answer <- f
		}
	}
}

// send sends a frame of this run to the server.
func (r *run) send(kind bridge.Kind, id uint64, body bridge.Map) error {
	return r.server.Write(bridge.Frame{Kind: kind, ID: id, Token: r.start.Token, Body: body})
}

// request sends a request to the server and waits for its result.
func (r *run) request(ctx context.Context, kind bridge.Kind, body bridge.Map) (bridge.Map, error) {
	answer := make(chan bridge.Frame, 1)
	r.mu.Lock()
	r.next++
	id := r.next
	r.waiting[id] = answer
	r.mu.Unlock()
	if err := r.send(kind, id, body); err != nil {
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
	ahead := r.takePrepared()
	switch {
	case r.interpreted():
		return r.interpret(ctx, ahead)
	case r.program.Language == "shell", r.program.Language == "command":
		return r.runCommand(ctx)
	}
	return r.fail(&bridge.Failure{
		Kind:    bridge.FailUnsupported,
		Message: fmt.Sprintf("the guest runs python, javascript, wasm, shell and commands, not %q", r.program.Language),
	}, 0)
}

// interpreted reports whether the program runs in an interpreter that speaks the bridge protocol.
func (r *run) interpreted() bool {
	return slices.Contains([]string{"python", "javascript", "wasm"}, r.program.Language)
}

func (r *run) fail(f *bridge.Failure, exit int) error {
	return r.send(bridge.Failed, 0, append(bridge.FailureBody(f), bridge.Member{Key: "exit", Value: int64(exit)}))
}

// AliveTimeout is how long a guest with [AliveEnv] waits for a sign of its server. A machine
// under load delays both.
const AliveTimeout = 6 * bridge.AlivePeriod

// watchdog ends the guest if its server is silent for too long. A nil watchdog does nothing.
type watchdog struct {
	timer   *time.Timer
	timeout time.Duration
}

func newWatchdog(timeout time.Duration, end func()) *watchdog {
	return &watchdog{time.AfterFunc(timeout, end), timeout}
}

// noteActivity records that the server has sent something.
func (w *watchdog) noteActivity() {
	if w != nil {
		w.timer.Reset(w.timeout)
	}
}

// extend allows a longer silence until the next activity, because the next frame is read only
// after the program has taken the last one. The silence is still limited, because a program may
// never take it.
func (w *watchdog) extend(most time.Duration) {
	if w != nil {
		w.timer.Reset(w.timeout + most)
	}
}

// read returns the server's next frame, skipping those that only say that the server is alive.
func (r *run) read() (bridge.Frame, error) {
	for {
		f, _, err := r.server.Read()
		r.watch.noteActivity()
		if err != nil || f.Kind != bridge.Alive {
			return f, err
		}
	}
}
