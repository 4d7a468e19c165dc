package host

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

// Child is a process whose stdin and stdout are the bridge.
type Child struct {
	process *proc.Process
	stderr  proc.Tail
}

// StartChild starts a child; [Child.Wait] reports the end of its stderr.
func StartChild(s proc.Spec) (*Child, error) {
	c := &Child{}
	s.Stderr = &c.stderr
	var err error
	c.process, err = proc.Start(s)
	return c, err
}

// Stream returns the child's stdout and stdin.
func (c *Child) Stream() io.ReadWriteCloser {
	return proc.Stream{ReadCloser: c.process.Stdout, WriteCloser: c.process.Stdin}
}

// Wait waits until the child has ended, or ctx is done.
func (c *Child) Wait(ctx context.Context) (sandbox.Exit, error) {
	select {
	case <-c.process.Done():
	case <-ctx.Done():
		return sandbox.Exit{}, context.Cause(ctx)
	}
	exit := sandbox.Exit{}
	if failed, ok := errors.AsType[*exec.ExitError](c.process.Err()); ok {
		exit = ExitOf(failed.ExitCode())
		if status, ok := failed.Sys().(syscall.WaitStatus); ok && status.Signaled() {
			exit.Signal = status.Signal().String()
		}
	}
	exit.Stderr = c.stderr.String()
	return exit, nil
}

// Stop ends the child and its process group, with SIGKILL after grace.
func (c *Child) Stop(grace time.Duration) { c.process.Stop(grace) }

// ExitOf interprets an exit code as shells and container engines report it: above 128 a
// signal ended the guest.
func ExitOf(code int) sandbox.Exit {
	const signals = 65
	exit := sandbox.Exit{Code: code}
	if code > 128 && code < 128+signals {
		exit.Signal = syscall.Signal(code - 128).String()
	}
	return exit
}

// Usage returns the usage of the child and the processes it waited for, once it has
// ended.
func (c *Child) Usage() sandbox.Usage {
	select {
	case <-c.process.Done():
		cpu, peak := c.process.Usage()
		return sandbox.Usage{CPU: cpu, PeakMemory: peak}
	default:
		return sandbox.Usage{}
	}
}
