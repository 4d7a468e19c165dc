// Package microvm is the sandbox driver whose guests have a machine each: a
// kernel of their own in a small virtual machine, which QEMU or Firecracker
// runs. The guest is the machine's first process (package guest/vm), and there
// is no network device in it.
//
// A machine is booted once for each shape and its snapshot kept; a run starts
// from that, with the memory mapped copy-on-write.
package microvm

import (
	"context"
	"crypto/rand"
	"errors"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/guest"
	"github.com/toolroom/toolroom/internal/guest/vm"
	"github.com/toolroom/toolroom/internal/proc"
	"github.com/toolroom/toolroom/sandbox"
)

// Options of a driver.
type Options struct {
	// Folder holds the image that [Setup] has made, and the snapshots.
	Folder string
	// Guest and GuestArgs are what is started inside, for the probe; every spec
	// names its own.
	Guest     string
	GuestArgs []string
	// Program is the monitor's, qemu-system-x86_64 or firecracker from the search
	// path if empty.
	Program string
	// Cold boots a machine for every run, and keeps no snapshots.
	Cold bool
}

// Driver starts machines. Make one with [NewQEMU] or [NewFirecracker].
type Driver struct {
	name    string
	monitor monitor
	kvm     func() (reason string) // why there is none; see kvmReason
	o       Options

	mu        sync.Mutex // guards templates
	templates map[string]*sync.Mutex

	probing sync.Mutex // guards found, and lets one probe
	found   *accelerator
}

// NewQEMU is the driver microvm.
func NewQEMU(o Options) *Driver {
	if o.Program == "" {
		o.Program = "qemu-system-x86_64"
	}
	return newDriver("microvm", &qemu{program: o.Program, khz: clockKHz()}, o)
}

// NewFirecracker is the driver firecracker. It has not run on real Firecracker
// yet, only on a double of its API.
func NewFirecracker(o Options) *Driver {
	if o.Program == "" {
		o.Program = "firecracker"
	}
	return newDriver("firecracker", &firecracker{program: o.Program}, o)
}

func newDriver(name string, m monitor, o Options) *Driver {
	if folder, err := filepath.Abs(o.Folder); err == nil { // monitors run in folders of their own
		o.Folder = folder
	}
	return &Driver{name: name, monitor: m, kvm: kvmReason, o: o, templates: map[string]*sync.Mutex{}}
}

// Name is microvm or firecracker.
func (d *Driver) Name() string { return d.name }

// Sizes of machines. Kernel and first process take what a program may not use;
// rounding keeps the number of snapshots small.
const (
	ownMemory     = 112 << 20
	memoryStep    = 128 << 20
	defaultMemory = 384 << 20
)

// Start starts a guest in a machine of its own, from a snapshot where it can.
func (d *Driver) Start(ctx context.Context, s sandbox.Spec) (sandbox.Sandbox, error) {
	found, err := d.accelerated(ctx)
	if err != nil {
		return nil, d.unavailable(err, setupFix)
	}
	if s.Limits.Memory == 0 {
		s.Limits.Memory = defaultMemory
	}
	if s.Limits.Disk == 0 {
		s.Limits.Disk = s.Limits.Memory / 2 // it lies in memory
	}
	m, err := d.machine(ctx, s, found.KVM)
	if err != nil {
		return nil, d.unavailable(err, seeDoctor)
	}
	if err := d.settle(ctx, m, s); err != nil {
		m.kill()
		return nil, d.unavailable(err, seeDoctor)
	}
	return &box{machine: m, isolation: d.isolation(found), held: held(s)}, nil
}

func (d *Driver) unavailable(err error, fix string) error {
	return toolroom.Errorf(toolroom.CodeSandboxUnavailable, "the %s sandbox: %w", d.name, err).WithHint("%s", d.fix(err, fix))
}

// fix says what to do about err; otherwise is for one that is not known.
func (d *Driver) fix(err error, otherwise string) string {
	switch {
	case errors.Is(err, errLate):
		return "this machine may be overloaded, or the image broken: toolroom setup microvm --verify tells, and without the flag makes it anew"
	case errors.Is(err, syscall.ENOSPC):
		return "free the disk of " + d.o.Folder
	}
	return otherwise
}

const (
	setupFix  = "run toolroom setup microvm"
	seeDoctor = "toolroom doctor shows what is missing"
)

// machine is one that waits for its settings.
func (d *Driver) machine(ctx context.Context, s sandbox.Spec, kvm bool) (*machine, error) {
	spec, err := d.spec(s, kvm)
	if err != nil {
		return nil, err
	}
	if !d.o.Cold {
		if m, err := d.restored(ctx, spec); err == nil || ctx.Err() != nil {
			return m, err
		}
		// What keeps a snapshot from being made, such as a full disk, does not keep
		// a machine from booting.
	}
	m, err := d.monitor.boot(ctx, spec, nil)
	if err != nil {
		return nil, err
	}
	if err := m.awaitReady(ctx); err != nil {
		m.kill()
		return nil, err
	}
	return m, nil
}

// spec is the shape of a machine that can hold what s asks for.
func (d *Driver) spec(s sandbox.Spec, kvm bool) (machineSpec, error) {
	initial, err := initrd(d.o.Folder, s.Guest)
	if err != nil {
		return machineSpec{}, err
	}
	packed, err := os.Stat(initial)
	if err != nil {
		return machineSpec{}, err
	}
	memory := s.Limits.Memory + ownMemory + 3*packed.Size() // packed, unpacked into half of what is free
	return machineSpec{
		kernel: filepath.Join(d.o.Folder, kernelFile), initrd: initial, disk: filepath.Join(d.o.Folder, rootFile),
		guestArgs: s.Args, memory: (memory + memoryStep - 1) / memoryStep * memoryStep,
		cpus: max(1, int(math.Ceil(s.Limits.CPUs))), kvm: kvm, owner: proc.Owner(),
	}, nil
}

// settle gives a machine what is of this run alone.
func (d *Driver) settle(ctx context.Context, m *machine, s sandbox.Spec) error {
	defer deadline(ctx, m.stream)()
	entropy := make([]byte, 64)
	_, _ = rand.Read(entropy) // never fails
	env := []string{
		"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=" + vm.WorkDir, "LANG=C.UTF-8",
		guest.WorkEnv + "=" + vm.WorkDir,
	}
	return vm.WriteSettings(m.stream, vm.Settings{
		Entropy: entropy, Now: time.Now(), Args: s.Args, Env: slices.Concat(env, guest.Filter(s.Profile), s.Env),
		Memory: s.Limits.Memory, Disk: s.Limits.Disk, PIDs: s.Limits.PIDs, CPUs: s.Limits.CPUs, CPU: s.Limits.CPU,
	})
}

// holds is how machines hold each limit.
var holds = map[sandbox.Limit]string{
	sandbox.LimitWall:    "end of the machine",
	sandbox.LimitCPU:     "cgroup v2 and processors of the machine",
	sandbox.LimitMemory:  "cgroup v2 and memory of the machine",
	sandbox.LimitPIDs:    "cgroup v2 of the machine",
	sandbox.LimitDisk:    "size of a file system in memory",
	sandbox.LimitNetwork: "no network device",
	sandbox.LimitEgress:  sandbox.OverStream,
}

// held are the limits that this run's machine holds.
func held(s sandbox.Spec) map[sandbox.Limit]string {
	m, l := maps.Clone(holds), s.Limits
	if len(s.Egress) == 0 {
		delete(m, sandbox.LimitEgress)
	}
	if l.CPU == 0 && l.CPUs == 0 {
		delete(m, sandbox.LimitCPU)
	}
	if l.PIDs == 0 {
		delete(m, sandbox.LimitPIDs)
	}
	return m
}
