package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/bridge"
	"github.com/toolroom/toolroom/internal/egress"
	"github.com/toolroom/toolroom/internal/engine"
	"github.com/toolroom/toolroom/internal/engine/hosted"
	"github.com/toolroom/toolroom/internal/nearest"
	"github.com/toolroom/toolroom/internal/proc"
)

// hostedEngine returns the engine of a sandbox driver. If there is none, it returns the names of
// those that there are.
func (a *App) hostedEngine(name string) (e *hosted.Engine, known []string) {
	for _, one := range a.engines {
		e, ok := one.(*hosted.Engine)
		switch {
		case !ok || e.Name() == "host":
		case e.Name() == name:
			return e, nil
		default:
			known = append(known, e.Name())
		}
	}
	return nil, known
}

// CheckSandbox returns an error if no sandbox of sources has this name.
func (a *App) CheckSandbox(name string) error {
	e, known := a.hostedEngine(name)
	if e != nil {
		return nil
	}
	err := toolroom.Errorf(toolroom.CodeNotFound, "there is no sandbox %q for sources", name)
	if near, ok := nearest.Of(name, known); ok {
		return err.WithHint("did you mean %s?", near)
	}
	return err.WithHint("available: %s", strings.Join(known, ", "))
}

// attachedProgram is a program to start in a sandbox. The bridge carries its standard input
// and output, and its network connections.
type attachedProgram struct {
	who    string // the owner of the program, for messages
	job    engine.Job
	guard  *egress.Guard // judges and makes its connections; nil means that it has none
	stderr io.Writer
	log    *slog.Logger
}

// start starts the program and returns when it is running. The end of the caller's context
// stops the start, but not a running program.
func (a attachedProgram) start(caller context.Context, e *hosted.Engine) (p *attachedProcess, stdin io.WriteCloser, stdout io.ReadCloser, err error) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(caller))
	detach := context.AfterFunc(caller, cancel)
	defer detach()
	signals, passed := net.Pipe()
	p = &attachedProcess{done: make(chan struct{}), kill: cancel, signals: signals}
	far, stdin, stdout := newStdio()
	attached := make(chan struct{})
	var taken, passes atomic.Bool // the program itself may ask its proxy for the addresses
	var refused atomic.Pointer[error]
	job := a.job
	job.Dial = func(ctx context.Context, address string) (net.Conn, error) {
		switch {
		case address == bridge.StdioAddress && taken.CompareAndSwap(false, true):
			close(attached)
			return far, nil
		case address == bridge.SignalAddress && passes.CompareAndSwap(false, true):
			return passed, nil
		case a.guard == nil:
			return nil, toolroom.Errorf(toolroom.CodeDenied, "the sandbox of %s has no network", a.who)
		}
		conn, err := a.guard.DialContext(ctx, "tcp", address)
		if err != nil {
			a.log.Info("connection of a sandbox refused", "of", a.who, "to", address, "reason", err)
			refused.Store(&err)
		}
		return conn, err
	}
	go func() {
		defer cancel()
		result, err := e.Run(ctx, job, stderrHandler{to: a.stderr})
		p.end(result, err)
		if last := refused.Load(); last != nil && p.err != nil {
			p.err = fmt.Errorf("%w, after a connection was refused: %w", p.err, *last)
		}
		if taken.Load() {
			select {
			case <-far.ended: // what the program printed last was on its way
			case <-ctx.Done():
			}
		}
		far.Close()
		signals.Close()
		passed.Close()
		close(p.done)
	}()
	select {
	case <-attached:
		return p, stdin, stdout, nil
	case <-p.done:
		if err := caller.Err(); err != nil {
			return nil, nil, nil, fmt.Errorf("start the program of %s: %w", a.who, err)
		}
		return nil, nil, nil, cmp.Or(p.err, error(toolroom.Errorf(toolroom.CodeSandboxUnavailable, "the program of %s ended before it began", a.who)))
	}
}

// stderrHandler is the call handler of a program without tools. It writes the program's
// stderr to a writer.
type stderrHandler struct {
	bridge.NoTools
	to io.Writer
}

func (o stderrHandler) Print(_, text string) {
	if o.to != nil {
		_, _ = io.WriteString(o.to, text)
	}
}

// attachedProcess is a running program; see [proc.Running].
type attachedProcess struct {
	done    chan struct{}
	kill    context.CancelFunc
	signals net.Conn // to the guest

	err    error
	result *engine.Result
}

func (p *attachedProcess) end(result *engine.Result, err error) {
	p.result, p.err = result, err
	if result == nil || err != nil {
		return
	}
	switch f := result.Outcome.Failure; {
	case f != nil && f.Kind == bridge.FailUnsupported:
		p.err = fmt.Errorf("%s: %w", f.Message, exec.ErrNotFound)
	case f != nil:
		p.err = errors.New(f.Message)
	case result.Outcome.Exit != 0:
		p.err = &proc.Exit{Code: result.Outcome.Exit}
	}
}

func (p *attachedProcess) Done() <-chan struct{} { return p.done }
func (p *attachedProcess) Err() error            { return p.err }
func (p *attachedProcess) Kill()                 { p.kill() }

// signalTime limits the time for sending a signal to a guest.
const signalTime = 2 * time.Second

// Signal sends a signal to the program's process group. A guest that takes no signals is
// killed.
func (p *attachedProcess) Signal(signal syscall.Signal) {
	_ = p.signals.SetWriteDeadline(time.Now().Add(signalTime))
	if _, err := p.signals.Write([]byte{byte(signal)}); err != nil {
		p.Kill()
	}
}

func (p *attachedProcess) Usage() (time.Duration, int64) {
	if p.result == nil {
		return 0, 0
	}
	return p.result.CPU, p.result.PeakMemory
}

// stdio is the server's end of a program's standard input and output, as a connection.
type stdio struct {
	net.Conn // nil: none of its other methods are used
	in       *io.PipeReader
	out      *io.PipeWriter
	end      sync.Once
	ended    chan struct{} // closed when the program's output has ended
}

// newStdio returns both ends of a program's standard input and output; far is the end that
// is connected to the program.
func newStdio() (far *stdio, stdin io.WriteCloser, stdout io.ReadCloser) {
	in, stdin := io.Pipe()
	stdout, out := io.Pipe()
	return &stdio{in: in, out: out, ended: make(chan struct{})}, stdin, stdout
}

func (s *stdio) Read(p []byte) (int, error)  { return s.in.Read(p) }
func (s *stdio) Write(p []byte) (int, error) { return s.out.Write(p) }

// CloseWrite ends the program's output, and with it its input: see [bridge.Program.Attached].
func (s *stdio) CloseWrite() error {
	s.end.Do(func() { close(s.ended) })
	return errors.Join(s.out.Close(), s.in.CloseWithError(io.EOF))
}

func (s *stdio) Close() error { return s.CloseWrite() }
