//go:build !linux || !(amd64 || arm64)

package lockdown

import (
	"context"
	"errors"
	"runtime"
	"syscall"

	"github.com/toolroom/toolroom/internal/trial"
)

// Host starts programs on this machine; there is isolation on Linux only.
type Host struct {
	// Init is the command that becomes the init of a sandbox.
	Init []string
	// Trial is where it remembers what was tried, which is nothing here.
	Trial trial.Record
}

// Probe says that nothing is available.
func (h *Host) Probe(context.Context) Report {
	var report Report
	for _, rung := range []Rung{Namespaces, Offline, Landlock, Seccomp, Cgroup} {
		report = append(report, Finding{Rung: rung, Reason: "it is a part of Linux, and this is " + runtime.GOOS, Fix: "run the server on Linux, or choose another sandbox"})
	}
	return report
}

// Holds says that nothing would hold a limit.
func (h *Host) Holds(Limits) []Held { return nil }

// Reaches says that there is no isolation.
func (h *Host) Reaches(Spec) Rungs { return nil }

// Start refuses.
func (h *Host) Start(ctx context.Context, s Spec) (*Process, error) {
	s = s.withDefaults()
	if err := s.validate(); err != nil {
		return nil, err
	}
	return nil, &RungError{Finding: h.Probe(ctx).Find(Namespaces)}
}

// Forked is what a program inside puts on each process that it forks.
type Forked struct {
	Filter                       []byte
	Handled, Scoped, Read, Write uint64
}

// Forked has nothing to tell.
func (h *Host) Forked() Forked { return Forked{} }

// Leftovers are none.
func Leftovers() []Leftover { return nil }

// Remove has nothing to remove.
func (Leftover) Remove() error { return nil }

// Sweep has nothing to remove.
func Sweep() int { return 0 }

// Main is the init of a sandbox, which there is none of.
func Main() int { return 2 }

// Process is a started program, which there is none of.
type Process struct{}

// PID is the process id.
func (p *Process) PID() int { return 0 }

// Rungs is the isolation reached.
func (p *Process) Rungs() Rungs { return nil }

// Held says what holds each limit.
func (p *Process) Held() []Held { return nil }

// Done is closed when the program is gone.
func (p *Process) Done() <-chan struct{} { return nil }

// Wait returns when the program is gone.
func (p *Process) Wait() (Exit, error) { return Exit{}, nil }

// Usage is what the program has used.
func (p *Process) Usage() Usage { return Usage{} }

// Signal sends a signal.
func (p *Process) Signal(syscall.Signal) error { return nil }

// Kill ends the program.
func (p *Process) Kill() {}

// Lock says what a process that locks itself keeps.
type Lock struct{ Code bool }

// LockSelf cannot lock anything here.
func LockSelf(Lock) error { return errors.New("sandbox: lock the worker: that needs Linux") }
