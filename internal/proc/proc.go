// Package proc starts long-lived child processes that do not outlive this process: each has
// its own process group, is killed with all its descendants, and is labeled so that [Sweep]
// finds the processes left behind by a killed Toolroom.
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

// Spec describes a process to start.
type Spec struct {
	Command string
	Args    []string
	// Env is the whole environment, except the label of Owner.
	Env []string
	Dir string
	// Owner labels the process as a child of this Toolroom process; see [Owner].
	Owner string
	// Stderr receives the process's stderr; it must not block.
	Stderr io.Writer
	// Files are open in the process as file descriptors 3, 4 and so on.
	Files []*os.File
	// Terminal, if not nil, is one side of a terminal (see [OpenTerminal]) that becomes the
	// standard files of the process and controls it. Process.Stdin and Stdout are then empty.
	Terminal *os.File
	// Namespaces, if not nil, changes the attributes of a process that needs its own
	// namespaces.
	Namespaces func(*syscall.SysProcAttr)
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

// Start starts a process. Errors name the command.
func Start(s Spec) (*Process, error) {
	cmd := exec.Command(s.Command, s.Args...)
	cmd.Env = append(s.Env[:len(s.Env):len(s.Env)], ownerVariable+"="+s.Owner)
	cmd.Dir = s.Dir
	cmd.Stderr = s.Stderr
	cmd.ExtraFiles = s.Files
	cmd.SysProcAttr = ownGroup()
	if s.Namespaces != nil {
		s.Namespaces(cmd.SysProcAttr)
	}
	// Do not wait for ever for a grandchild that keeps stderr open.
	cmd.WaitDelay = time.Second
	// Use a pipe of our own: Wait would close StdoutPipe before it has been read.
	stdout, childOut, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	var stdin io.WriteCloser = noInput{}
	if s.Terminal != nil {
		cmd.Stdin, cmd.Stdout, cmd.Stderr = s.Terminal, s.Terminal, s.Terminal
		control(cmd.SysProcAttr)
	} else if stdin, err = cmd.StdinPipe(); err != nil {
		return nil, errors.Join(err, stdout.Close(), childOut.Close())
	} else {
		cmd.Stdout = childOut
	}

	p := &Process{Stdin: stdin, Stdout: stdout, cmd: cmd, done: make(chan struct{})}
	started := make(chan error)
	go p.run(started)
	err = <-started
	childOut.Close()
	if err != nil {
		stdout.Close()
		return nil, fmt.Errorf("start %s: %w", s.Command, err)
	}
	return p, nil
}

// noInput is the input of a process that has a terminal.
type noInput struct{}

func (noInput) Write([]byte) (int, error) { return 0, os.ErrClosed }
func (noInput) Close() error              { return nil }

// run starts the process and waits for it on one locked thread: Pdeathsig kills a child
// when its parent's thread ends, not its parent's process.
func (p *Process) run(started chan<- error) {
	unlock := lockThread()
	defer unlock()
	if err := p.cmd.Start(); err != nil {
		started <- err
		return
	}
	started <- nil
	// ErrWaitDelay means that a grandchild kept stderr open, not how the process ended.
	if err := p.cmd.Wait(); !errors.Is(err, exec.ErrWaitDelay) {
		p.err = err
	}
	signalGroup(p.cmd.Process.Pid, syscall.SIGKILL) // kill the rest of the group
	close(p.done)
}

// Orphan is a process that was started by a Toolroom process that has ended.
type Orphan struct {
	PID     int
	Command string
}

// PID returns the process id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Done returns a channel that is closed when the process has ended; then Err is valid.
func (p *Process) Done() <-chan struct{} { return p.done }

// Err returns how the process ended, nil for exit code 0. It is valid once Done is closed.
func (p *Process) Err() error { return p.err }

// Usage returns the processor time and the peak memory, in bytes, of the process and the
// children it waited for. It is valid once Done is closed.
func (p *Process) Usage() (cpu time.Duration, peak int64) {
	state := p.cmd.ProcessState
	if state == nil {
		return 0, 0
	}
	return state.UserTime() + state.SystemTime(), peakMemory(state)
}

// Signal sends a signal to the process and its group.
func (p *Process) Signal(sig syscall.Signal) {
	select {
	case <-p.done:
	default:
		signalGroup(p.PID(), sig)
	}
}

// Stop ends the process and its group, and waits until the process has ended. It first
// closes stdin, sends SIGTERM after a third of grace, and SIGKILL after grace. It is
// idempotent.
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
