package extend

import (
	"context"
	"errors"
	"io"
	"os/exec"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/sandbox"
)

// Wrapper is a driver that starts the guest within another program, such as
// bwrap. Command is that program with its arguments.
type Wrapper struct{ Command []string }

// held maps each enforced limit to its mechanism. Other limits are not enforced.
var held = map[sandbox.Limit]string{sandbox.LimitWall: "SIGKILL of the wrapper"}

// Name returns the driver's name, which --runtime takes.
func (w Wrapper) Name() string { return "wrapper" }

// Probe reports what this driver can do on this machine.
func (w Wrapper) Probe(context.Context) sandbox.Probe {
	if _, err := exec.LookPath(w.Command[0]); err != nil {
		return sandbox.Probe{State: sandbox.Unsupported, Reason: err.Error(), Fix: "install " + w.Command[0]}
	}
	return sandbox.Probe{
		State: sandbox.Available, Isolation: "wrapper", Languages: []string{"shell"},
		Holds: held,
	}
}

// Start starts the guest. It speaks the bridge on stdin and stdout.
func (w Wrapper) Start(_ context.Context, s sandbox.Spec) (sandbox.Sandbox, error) {
	words := append(append(w.Command[:len(w.Command):len(w.Command)], s.Guest), s.Args...)
	c := exec.Command(words[0], words[1:]...)
	c.Env = s.Env
	in, inErr := c.StdinPipe()
	out, outErr := c.StdoutPipe()
	if err := errors.Join(inErr, outErr, c.Start()); err != nil {
		return nil, toolroom.Errorf(toolroom.CodeSandboxUnavailable, "the wrapper: %w", err)
	}
	sb := &sandboxed{c: c, stream: stream{out, in}, done: make(chan struct{})}
	go func() { c.Process.Wait(); close(sb.done) }()
	return sb, nil
}

type stream struct {
	io.ReadCloser
	io.WriteCloser
}

func (s stream) Close() error { return errors.Join(s.WriteCloser.Close(), s.ReadCloser.Close()) }

type sandboxed struct {
	c      *exec.Cmd
	stream stream
	done   chan struct{}
}

func (w *sandboxed) Stream() io.ReadWriteCloser { return w.stream }

func (w *sandboxed) Wait(ctx context.Context) (sandbox.Exit, error) {
	select {
	case <-w.done:
		return sandbox.Exit{}, nil
	case <-ctx.Done():
		return sandbox.Exit{}, context.Cause(ctx)
	}
}

func (w *sandboxed) Kill(context.Context) error {
	w.c.Process.Kill() // it may have ended
	<-w.done
	return nil
}

func (w *sandboxed) Usage() sandbox.Usage           { return sandbox.Usage{} }
func (w *sandboxed) Isolation() string              { return "wrapper" }
func (w *sandboxed) Held() map[sandbox.Limit]string { return held }
