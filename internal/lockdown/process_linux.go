//go:build amd64 || arm64

package lockdown

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Process is a started program. Its methods are safe for concurrent use.
type Process struct {
	plan    plan
	limits  Limits
	layers  Layers
	held    []Held
	group   *group // nil without cgroups
	cmd     *exec.Cmd
	control *net.UnixConn
	inside  *insideSockets // nil without a loopback inside

	mu       sync.Mutex // guards control and exceeded
	exceeded string

	noProc bool

	done  chan struct{}
	exit  Exit
	usage Usage
	err   error
}

// PID returns the process id, outside, of the sandbox's init.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Layers returns the enforced isolation layers.
func (p *Process) Layers() Layers { return p.layers }

// Held returns how each limit is enforced.
func (p *Process) Held() []Held { return p.held }

// Done returns a channel that is closed when the program and all processes it
// started have ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Wait waits until the program and all processes it started have ended. The error
// is non-nil if the sandbox, not the program, failed.
func (p *Process) Wait() (Exit, error) {
	<-p.done
	return p.exit, p.err
}

// Usage returns the resource usage of the tree so far. Without cgroups it is zero
// until Done is closed.
func (p *Process) Usage() Usage {
	select {
	case <-p.done:
		return p.usage
	default:
	}
	if p.group == nil {
		return Usage{}
	}
	return p.group.usage()
}

// Signal sends a signal to the program.
func (p *Process) Signal(sig syscall.Signal) error {
	if p.plan.Direct {
		return p.cmd.Process.Signal(sig)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.send(order{Signal: int(sig)})
}

// send sends init the plan or an order. No newline follows: if init's decoder left it
// unread, which depends on the plan's length, the kernel would report a broken connection
// instead of its end when the program replaces init.
func (p *Process) send(what any) error {
	data, err := json.Marshal(what)
	if err != nil {
		return err
	}
	_, err = p.control.Write(data)
	return err
}

// Kill kills the program and all processes it started, and waits until they have
// ended. It is idempotent.
func (p *Process) Kill() {
	p.kill()
	<-p.done
}

// Halt kills the program and all processes it started, and does not wait for their end.
func (p *Process) Halt() { p.kill() }

// killGrace is the time in which an init that is not PID 1 must kill the other
// processes.
const killGrace = 2 * time.Second

func (p *Process) kill() {
	if p.plan.Namespaces {
		// When PID 1 of a namespace is killed, the kernel kills all other processes
		// there before it reports the end. The group contains no others.
		_ = p.cmd.Process.Kill()
		return
	}
	if p.plan.Direct {
		_ = p.cmd.Process.Kill()
	} else {
		// Init sees the end of the stream and kills all processes it has adopted.
		_ = p.control.CloseWrite()
		timer := time.AfterFunc(killGrace, func() { _ = p.cmd.Process.Kill() })
		go func() { <-p.done; timer.Stop() }()
	}
	if p.group != nil {
		p.group.kill()
	}
}

// runInit starts init and waits for it on one locked thread: Pdeathsig kills a
// child when its parent's thread ends, not its parent's process.
func (p *Process) runInit(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	start := p.cmd.Start
	if p.group != nil {
		start = func() error { return p.group.start(p.cmd) }
	}
	if err := start(); err != nil {
		started <- err
		return
	}
	started <- nil
	_ = p.cmd.Wait()
}

// handOver sends init the plan and returns when the program runs.
func (p *Process) handOver(answers *json.Decoder) error {
	if err := p.send(p.plan); err != nil {
		return fmt.Errorf("init ended before it began; does main hand %s to lockdown.Main? %w", InitArg, err)
	}
	var first message
	err := answers.Decode(&first)
	switch {
	case p.plan.Direct && !p.plan.Probe && errors.Is(err, io.EOF):
		return nil // closed on exec
	case err != nil:
		return fmt.Errorf("init ended before the program ran; does main hand %s to lockdown.Main? %w", InitArg, err)
	case !first.Started:
		return errors.New(first.Error)
	}
	p.noProc = first.NoProc
	return nil
}

// await waits for the end of the program and records how it ended.
func (p *Process) await(answers *json.Decoder, gone <-chan struct{}, release func()) {
	stop := make(chan struct{})
	watching := p.watchTime(stop)
	var last message
	_ = answers.Decode(&last)
	<-gone
	close(stop)
	<-watching
	p.control.Close()
	if p.inside != nil {
		p.inside.close()
	}
	p.finish(last)
	release()
	close(p.done)
}

func (p *Process) finish(last message) {
	switch state := p.cmd.ProcessState; {
	case last.Exit != nil:
		p.exit, p.usage = *last.Exit, last.Usage
	default:
		p.usage.CPU = state.UserTime() + state.SystemTime()
		p.exit = Exit{Code: state.ExitCode()}
		if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
			p.exit.Signal = int(status.Signal())
		}
		if rusage, ok := state.SysUsage().(*syscall.Rusage); ok {
			p.usage.Memory = rusage.Maxrss << 10
		}
	}
	if p.group != nil {
		p.usage = p.group.usage()
		if p.exit.Signal == int(unix.SIGKILL) && p.group.outOfMemory() {
			p.exit.Exceeded = "memory"
		}
		p.group.kill() // the group is empty unless init itself was killed
		p.group.remove()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.exceeded != "" {
		p.exit.Exceeded = p.exceeded
	}
	// A program that ignores SIGXCPU, as Go programs do, gets SIGKILL at the hard limit.
	killed := p.exit.Signal == int(unix.SIGKILL) && p.limits.CPUTime > 0 && p.usage.CPU >= p.limits.CPUTime
	if p.exit.Signal == int(unix.SIGXCPU) || killed && p.exit.Exceeded == "" {
		p.exit.Exceeded = "cpu_time"
	}
}

// watchTime kills the tree when its total processor time exceeds the limit; an
// rlimit counts each process separately.
func (p *Process) watchTime(stop <-chan struct{}) (done <-chan struct{}) {
	ended := make(chan struct{})
	limit := p.limits.CPUTime
	if limit == 0 || p.group == nil || p.group.folders.mechanism("cpuacct") == "" {
		close(ended)
		return ended
	}
	go func() {
		defer close(ended)
		for {
			left := limit - p.group.cpu()
			if left <= 0 {
				p.mu.Lock()
				p.exceeded = "cpu_time"
				p.mu.Unlock()
				p.kill()
				return
			}
			// Even on all processors at once, the rest lasts at least this long.
			timer := time.NewTimer(max(left/time.Duration(runtime.NumCPU()), 5*time.Millisecond))
			select {
			case <-timer.C:
			case <-stop:
				timer.Stop()
				return
			}
		}
	}()
	return ended
}
