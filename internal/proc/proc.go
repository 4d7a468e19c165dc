// Package proc starts long-lived child processes that do not outlive this process: each has
// its own process group, is killed with all its descendants, and is labeled so that [Sweep]
// finds the processes left behind by a killed Toolroom.
//
// [Labels] marks what a driver makes, so that a later process can remove what a dead one
// has left behind ([Abandoned]).
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

	cmd    *exec.Cmd
	done   chan struct{}
	err    error
	once   sync.Once
	remote Running // if not nil, what runs it instead of cmd
}

// Running is a process that runs elsewhere, such as in a sandbox.
type Running interface {
	// Done returns a channel that is closed when the process has ended.
	Done() <-chan struct{}
	// Err returns how it ended, nil for exit code 0 and an [*Exit] for another; Usage
	// returns its processor time and peak memory. Both are valid once Done is closed.
	Err() error
	Usage() (cpu time.Duration, peak int64)
	// Kill ends it with all its descendants. It may return before they have ended.
	Kill()
}

// Wrap returns a process that a sandbox runs, with its standard input and output.
func Wrap(r Running, stdin io.WriteCloser, stdout io.ReadCloser) *Process {
	return &Process{Stdin: stdin, Stdout: stdout, remote: r}
}

// Exit is the error of a process that ended with an exit code other than 0.
type Exit struct{ Code int }

func (e *Exit) Error() string { return fmt.Sprintf("exit status %d", e.Code) }

// ExitOf returns the exit code of an error of [Process.Err], -1 after a signal, and how the
// process ended in words. exited reports whether it did so by itself. how is empty if err is
// of another kind.
func ExitOf(err error) (code int, how string, exited bool) {
	var exit *Exit
	var ended *exec.ExitError
	switch {
	case errors.As(err, &exit):
		return exit.Code, exit.Error(), true
	case errors.As(err, &ended):
		return ended.ExitCode(), ended.ProcessState.String(), ended.Exited()
	}
	return 0, "", false
}

// Start starts a process. Errors name the command.
func Start(s Spec) (*Process, error) {
	cmd := exec.Command(s.Command, s.Args...)
	cmd.Env = append(s.Env[:len(s.Env):len(s.Env)], ownerVariable+"="+s.Owner)
	cmd.Dir = s.Dir
	cmd.Stderr = s.Stderr
	cmd.ExtraFiles = s.Files
	cmd.SysProcAttr = newProcessGroup()
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
		Control(cmd.SysProcAttr)
	} else if stdin, err = cmd.StdinPipe(); err != nil {
		return nil, errors.Join(err, stdout.Close(), childOut.Close())
	} else {
		cmd.Stdout = childOut
	}

	p := &Process{Stdin: stdin, Stdout: NewOutput(stdout), cmd: cmd, done: make(chan struct{})}
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

// PID returns the process id, or 0 if the process runs elsewhere.
func (p *Process) PID() int {
	if p.remote != nil {
		return 0
	}
	return p.cmd.Process.Pid
}

// Done returns a channel that is closed when the process has ended; then Err is valid.
func (p *Process) Done() <-chan struct{} {
	if p.remote != nil {
		return p.remote.Done()
	}
	return p.done
}

// Err returns how the process ended, nil for exit code 0. It is valid once Done is closed.
func (p *Process) Err() error {
	if p.remote != nil {
		return p.remote.Err()
	}
	return p.err
}

// Usage returns the processor time and the peak memory, in bytes, of the process and the
// children it waited for. It is valid once Done is closed.
func (p *Process) Usage() (cpu time.Duration, peak int64) {
	if p.remote != nil {
		return p.remote.Usage()
	}
	state := p.cmd.ProcessState
	if state == nil {
		return 0, 0
	}
	return state.UserTime() + state.SystemTime(), peakMemory(state)
}

// Signal sends a signal to the process and its group. One that runs elsewhere is killed.
func (p *Process) Signal(sig syscall.Signal) {
	select {
	case <-p.Done():
	default:
		p.signal(sig)
	}
}

func (p *Process) signal(sig syscall.Signal) {
	if p.remote != nil {
		p.remote.Kill()
		return
	}
	signalGroup(p.PID(), sig)
}

// EndOutput makes reads of Stdout wait for at most d, see [Output.EndWithin]. The output of a
// process that [Wrap] was given ends with the process.
func (p *Process) EndOutput(d time.Duration) {
	if o, ok := p.Stdout.(*Output); ok {
		o.EndWithin(d)
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
		p.signal(syscall.SIGTERM)
		if p.exited(grace - grace/3) {
			return
		}
		p.signal(syscall.SIGKILL)
	})
	<-p.Done()
	p.Stdout.Close()
}

func (p *Process) exited(within time.Duration) bool {
	timer := time.NewTimer(within)
	defer timer.Stop()
	select {
	case <-p.Done():
		return true
	case <-timer.C:
		return false
	}
}

// Stream joins an output and an input, such as those of a process, into one stream.
type Stream struct {
	io.ReadCloser
	io.WriteCloser
}

// Close closes both.
func (s Stream) Close() error { return errors.Join(s.WriteCloser.Close(), s.ReadCloser.Close()) }
