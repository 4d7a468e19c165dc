// Package proc starts long-lived child processes that never outlive this one:
// each has a process group of its own, is ended whole, and carries a mark by
// which [Sweep] finds what a killed Toolroom left behind.
package proc

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"
)

// Spec says what to start.
type Spec struct {
	Command string
	Args    []string
	// Env is the whole environment.
	Env []string
	Dir string
	// Owner marks the process as a child of this Toolroom process; see [Owner].
	Owner string
	// Stderr receives what the process writes there; it must not block.
	Stderr io.Writer
	// Files are open in the process as descriptors 3, 4 and so on.
	Files []*os.File
	// Apart changes how the process is made, where it needs namespaces of its
	// own; nil leaves it.
	Apart func(*syscall.SysProcAttr)
}

// Process is a started process. Its methods are safe for concurrent use.
type Process struct {
	Stdin  io.WriteCloser
	Stdout io.ReadCloser

	cmd  *exec.Cmd
	done chan struct{}
	err  error
	once sync.Once
}

// Start starts a process. An error names the command and what to do.
func Start(s Spec) (*Process, error) {
	cmd := exec.Command(s.Command, s.Args...)
	cmd.Env = append(s.Env[:len(s.Env):len(s.Env)], ownerVariable+"="+s.Owner)
	cmd.Dir = s.Dir
	cmd.Stderr = s.Stderr
	cmd.ExtraFiles = s.Files
	cmd.SysProcAttr = ownGroup()
	if s.Apart != nil {
		s.Apart(cmd.SysProcAttr)
	}
	// A grandchild that keeps stderr open must not hold Wait for ever.
	cmd.WaitDelay = time.Second
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	// Our own pipe: StdoutPipe would be closed by Wait before it is drained.
	stdout, childOut, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	cmd.Stdout = childOut

	p := &Process{Stdin: stdin, Stdout: stdout, cmd: cmd, done: make(chan struct{})}
	started := make(chan error)
	go p.live(started)
	err = <-started
	childOut.Close()
	if err != nil {
		stdout.Close()
		return nil, fmt.Errorf("start %s: %w", s.Command, err)
	}
	return p, nil
}

// live starts the process and waits for it on one thread: Linux ends a child
// with its parent's thread, not its parent's process.
func (p *Process) live(started chan<- error) {
	unlock := lockThread()
	defer unlock()
	if err := p.cmd.Start(); err != nil {
		started <- err
		return
	}
	started <- nil
	// That a grandchild held stderr does not say how the process ended.
	if err := p.cmd.Wait(); !errors.Is(err, exec.ErrWaitDelay) {
		p.err = err
	}
	signalGroup(p.cmd.Process.Pid, syscall.SIGKILL) // what it left behind in its group
	close(p.done)
}

// Orphan is a process that a Toolroom process which no longer runs has started.
type Orphan struct {
	PID     int
	Command string
}

// PID is the process id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Done is closed when the process has ended; Err says how after that.
func (p *Process) Done() <-chan struct{} { return p.done }

// Err is how the process ended, nil for exit code 0. It is valid once Done is
// closed.
func (p *Process) Err() error { return p.err }

// Usage is the processor time and the peak memory, in bytes, of the process and
// the children it waited for. It is valid once Done is closed.
func (p *Process) Usage() (cpu time.Duration, peak int64) {
	state := p.cmd.ProcessState
	if state == nil {
		return 0, 0
	}
	return state.UserTime() + state.SystemTime(), peakMemory(state)
}

// Stop ends the process and its group, and returns when it is gone: its stdin
// is closed first, after a third of grace it gets SIGTERM, after grace SIGKILL.
// It is idempotent.
func (p *Process) Stop(grace time.Duration) {
	p.once.Do(func() {
		p.Stdin.Close()
		if p.exited(grace / 3) {
			return
		}
		signalGroup(p.PID(), syscall.SIGTERM)
		if p.exited(grace - grace/3) {
			return
		}
		signalGroup(p.PID(), syscall.SIGKILL)
	})
	<-p.done
	p.Stdout.Close()
}

func (p *Process) exited(within time.Duration) bool {
	timer := time.NewTimer(within)
	defer timer.Stop()
	select {
	case <-p.done:
		return true
	case <-timer.C:
		return false
	}
}
