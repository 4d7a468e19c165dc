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
	rungs   Rungs
	held    []Held
	group   *group // nil without cgroups
	cmd     *exec.Cmd
	control *net.UnixConn
	orders  *json.Encoder

	mu       sync.Mutex // guards orders and exceeded
	exceeded string

	noProc bool

	done  chan struct{}
	exit  Exit
	usage Usage
	err   error
}

// PID is the process id, outside, of the sandbox's init.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Rungs is the isolation reached.
func (p *Process) Rungs() Rungs { return p.rungs }

// Held says for each limit what holds it.
func (p *Process) Held() []Held { return p.held }

// Done is closed when the program and all it started are gone.
func (p *Process) Done() <-chan struct{} { return p.done }

// Wait returns when the program and all it started are gone. An error says that
// the sandbox failed, not the program.
func (p *Process) Wait() (Exit, error) {
	<-p.done
	return p.exit, p.err
}

// Usage is what the tree has used so far; without cgroups that is known once
// Done is closed.
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
	return p.orders.Encode(order{Signal: int(sig)})
}

// Kill ends the program and all it started, and returns when they are gone. It
// is idempotent.
func (p *Process) Kill() {
	p.kill()
	<-p.done
}

// killGrace is how long an init that is not PID 1 has for killing what is left.
const killGrace = 2 * time.Second

func (p *Process) kill() {
	if p.plan.Namespaces {
		// With the first process of a namespace the kernel ends all others, before
		// it tells of its end; what is in the group is among them.
		_ = p.cmd.Process.Kill()
		return
	}
	if p.plan.Direct {
		_ = p.cmd.Process.Kill()
	} else {
		// Init hears that nobody listens any more, and ends all it has adopted.
		_ = p.control.CloseWrite()
		timer := time.AfterFunc(killGrace, func() { _ = p.cmd.Process.Kill() })
		go func() { <-p.done; timer.Stop() }()
	}
	if p.group != nil {
		p.group.kill()
	}
}

// live starts init and waits for it on one thread: Linux ends a child with its
// parent's thread, not its parent's process.
func (p *Process) live(started chan<- error) {
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

// handOver tells init the plan and returns when the program runs.
func (p *Process) handOver(answers *json.Decoder) error {
	if err := p.orders.Encode(p.plan); err != nil {
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

// follow waits for the end, and works out how it came.
func (p *Process) follow(answers *json.Decoder, gone <-chan struct{}, release func()) {
	stop := make(chan struct{})
	watching := p.watchTime(stop)
	var last message
	_ = answers.Decode(&last)
	<-gone
	close(stop)
	<-watching
	p.control.Close()
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
		p.group.kill() // there is nothing, unless init itself was killed
		p.group.remove()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.exceeded != "" {
		p.exit.Exceeded = p.exceeded
	}
	if p.exit.Signal == int(unix.SIGXCPU) {
		p.exit.Exceeded = "cpu_time"
	}
}

// watchTime ends the tree when its processor time is over the limit: an rlimit
// counts each process by itself.
func (p *Process) watchTime(stop <-chan struct{}) (done <-chan struct{}) {
	ended := make(chan struct{})
	limit := p.limits.CPUTime
	if limit == 0 || p.group == nil || p.group.folders.by("cpuacct") == "" {
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
			// On all processors at once it is used up no sooner than this.
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
