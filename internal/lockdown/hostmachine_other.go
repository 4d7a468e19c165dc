//go:build !linux || !(amd64 || arm64)

package lockdown

import (
	"context"
	"errors"
	"net"
	"runtime"
	"syscall"
)

// HostMachine starts programs on this machine. Isolation is available on Linux only.
type HostMachine struct {
	// Init is the command that becomes the init of a sandbox.
	Init []string
	// ProbeCache is not used here.
	ProbeCache ProbeCache
}

// Probe reports that no layer is available.
func (h *HostMachine) Probe(context.Context) Report {
	var report Report
	for _, layer := range []Layer{Namespaces, Offline, Landlock, Seccomp, Cgroup} {
		report = append(report, Finding{Layer: layer, Reason: "it is a part of Linux, and this is " + runtime.GOOS, Fix: "run the server on Linux, or choose another sandbox"})
	}
	return report
}

// Holds returns nil: no limit can be enforced.
func (h *HostMachine) Holds(Limits) []Held { return nil }

// LayersOf returns nil: there is no isolation.
func (h *HostMachine) LayersOf(Spec) Layers { return nil }

// Start returns an error.
func (h *HostMachine) Start(ctx context.Context, s Spec) (*Process, error) {
	s = s.withDefaults()
	if err := s.validate(); err != nil {
		return nil, err
	}
	return nil, &LayerError{Finding: h.Probe(ctx).Find(Namespaces)}
}

// ForkRestrictions are the restrictions of forked processes.
type ForkRestrictions struct {
	Filter                       []byte
	Handled, Scoped, Read, Write uint64
}

// ForkRestrictions returns no restrictions.
func (h *HostMachine) ForkRestrictions() ForkRestrictions { return ForkRestrictions{} }

// Leftovers returns nil.
func Leftovers() []Leftover { return nil }

// Remove does nothing.
func (Leftover) Remove() error { return nil }

// Sweep does nothing.
func Sweep() int { return 0 }

// Main returns an exit code for misuse: there are no sandboxes on this system.
func Main() int { return 2 }

// JailMain returns an exit code for misuse: there is no launcher on this system.
func JailMain([]string) int { return 2 }

// Process is a started program. There are none on this system.
type Process struct{}

// PID returns 0.
func (p *Process) PID() int { return 0 }

// Layers returns nil.
func (p *Process) Layers() Layers { return nil }

// Held returns nil.
func (p *Process) Held() []Held { return nil }

// Done returns nil.
func (p *Process) Done() <-chan struct{} { return nil }

// Wait returns at once.
func (p *Process) Wait() (Exit, error) { return Exit{}, nil }

// Usage returns the zero value.
func (p *Process) Usage() Usage { return Usage{} }

// Signal does nothing.
func (p *Process) Signal(syscall.Signal) error { return nil }

// Halt does nothing.
func (p *Process) Halt() {}

// Kill does nothing.
func (p *Process) Kill() {}

// Lock configures [LockSelf].
type Lock struct{ Code bool }

// LockSelf returns an error: a process cannot be locked on this system.
func LockSelf(Lock) error { return errors.New("sandbox: lock the worker: that needs Linux") }

// Dial returns an error.
func (p *Process) Dial(context.Context, uint16) (net.Conn, error) {
	return nil, errors.New("sandbox: dialing inside needs Linux")
}

// Listeners returns nil.
func (p *Process) Listeners() []net.Listener { return nil }

// Ports returns nil.
func (p *Process) Ports() []uint16 { return nil }
