// Package child is what drivers share whose guests are child processes of this
// one, or end as such do: the bridge on stdin and stdout, the end of stderr, and
// how it all ended.
package child

import (
	"context"
	"errors"
	"io"
	"os/exec"
	"syscall"
	"time"

	"github.com/toolroom/toolroom/internal/proc"
	"github.com/toolroom/toolroom/sandbox"
)

// Child is a process that the bridge runs through.
type Child struct {
	process *proc.Process
	stderr  proc.Tail
}

// Start starts a child; what it writes to stderr is kept for [Child.Wait].
func Start(s proc.Spec) (*Child, error) {
	c := &Child{}
	s.Stderr = &c.stderr
	var err error
	c.process, err = proc.Start(s)
	return c, err
}

// Stream is the child's stdout and stdin.
func (c *Child) Stream() io.ReadWriteCloser { return stream{c.process} }

type stream struct{ p *proc.Process }

func (s stream) Read(p []byte) (int, error)  { return s.p.Stdout.Read(p) }
func (s stream) Write(p []byte) (int, error) { return s.p.Stdin.Write(p) }
func (s stream) Close() error                { return errors.Join(s.p.Stdin.Close(), s.p.Stdout.Close()) }

// Wait returns when the child has ended, or ctx has.
func (c *Child) Wait(ctx context.Context) (sandbox.Exit, error) {
	select {
	case <-c.process.Done():
	case <-ctx.Done():
		return sandbox.Exit{}, context.Cause(ctx)
	}
	exit := sandbox.Exit{}
	var failed *exec.ExitError
	if errors.As(c.process.Err(), &failed) {
		exit = Exit(failed.ExitCode())
		if status, ok := failed.Sys().(syscall.WaitStatus); ok && status.Signaled() {
			exit.Signal = status.Signal().String()
		}
	}
	exit.Stderr = c.stderr.String()
	return exit, nil
}

// Stop ends the child and its group: with SIGKILL once grace is over.
func (c *Child) Stop(grace time.Duration) { c.process.Stop(grace) }

// Exit reads a code as engines and shells give it: above 128 a signal ended the
// guest.
func Exit(code int) sandbox.Exit {
	const signals = 65
	exit := sandbox.Exit{Code: code}
	if code > 128 && code < 128+signals {
		exit.Signal = syscall.Signal(code - 128).String()
	}
	return exit
}

// Usage is known once the child has ended: its own, and that of the processes it
// waited for.
func (c *Child) Usage() sandbox.Usage {
	select {
	case <-c.process.Done():
		cpu, peak := c.process.Usage()
		return sandbox.Usage{CPU: cpu, PeakMemory: peak}
	default:
		return sandbox.Usage{}
	}
}
