// Package microvm is the sandbox driver that gives each guest a virtual machine (VM): a
// kernel of its own, run by QEMU or Firecracker. The guest is the VM's first process
// (package guest/vm), and the VM has no network device.
//
// The driver boots one VM for each shape and keeps its snapshot; a run starts from the
// snapshot, with the memory mapped copy-on-write.
package microvm

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/drivers/turn"
	"github.com/toolroom/toolroom/internal/guest"
	"github.com/toolroom/toolroom/internal/guest/vm"
	"github.com/toolroom/toolroom/internal/proc"
	"github.com/toolroom/toolroom/sandbox"
)

// Options configures a driver.
type Options struct {
	// Folder is the folder with the image made by [Setup], and with the snapshots.
	Folder string
	// Guest and GuestArgs are the guest that Probe starts; other starts use the guest of
	// their spec.
	Guest     string
	GuestArgs []string
	// Program is the path of the monitor; if empty, qemu-system-x86_64 or firecracker from
	// the search path.
	Program string
	// Cold boots a VM for every run, and keeps no snapshots.
	Cold bool
}

// Driver starts VMs. Make one with [NewQEMU] or [NewFirecracker].
type Driver struct {
	name    string
	monitor monitor
	kvm     func() (reason string) // why KVM cannot be used, or ""; see kvmReason
	o       Options

	mu        sync.Mutex // guards templates
	templates map[string]turn.Turn

	probing turn.Turn // guards found; only one goroutine probes
	found   *accelerator
}

// takeTurn takes a turn; while another has it, a VM boots.
func takeTurn(ctx context.Context, t turn.Turn) (end func(), err error) {
	if end, err = t.Take(ctx); err != nil {
		return nil, fmt.Errorf("%w: %w", errLate, err)
	}
	return end, nil
}

// NewQEMU returns the driver microvm.
func NewQEMU(o Options) *Driver {
	if o.Program == "" {
		o.Program = "qemu-system-x86_64"
	}
	return newDriver("microvm", &qemu{program: o.Program, khz: clockKHz()}, o)
}

// NewFirecracker returns the driver firecracker. It has not been run with the real
// Firecracker yet, only with a test double of its API.
func NewFirecracker(o Options) *Driver {
	if o.Program == "" {
		o.Program = "firecracker"
	}
	return newDriver("firecracker", &firecracker{program: o.Program}, o)
}

func newDriver(name string, m monitor, o Options) *Driver {
	if folder, err := filepath.Abs(o.Folder); err == nil { // each monitor runs in another folder
		o.Folder = folder
	}
	return &Driver{name: name, monitor: m, kvm: kvmReason, o: o, templates: map[string]turn.Turn{}, probing: turn.New()}
}

// Name returns "microvm" or "firecracker".
func (d *Driver) Name() string { return d.name }

// Sizes of VMs. The kernel and the first process need ownMemory in addition to the
// program; rounding keeps the number of snapshots small.
const (
	ownMemory     = 112 << 20
	memoryStep    = 128 << 20
	defaultMemory = 384 << 20
)

// Start starts a guest in a VM of its own, from a snapshot if possible.
func (d *Driver) Start(ctx context.Context, s sandbox.Spec) (sandbox.Sandbox, error) {
	found, err := d.findAccelerator(ctx)
	if err != nil {
		return nil, d.unavailable(err, setupFix)
	}
	if s.Limits.Memory == 0 {
		s.Limits.Memory = defaultMemory
	}
	if s.Limits.Disk == 0 {
		s.Limits.Disk = s.Limits.Memory / 2 // the disk is in memory
	}
	m, err := d.machine(ctx, s, found.KVM)
	if err != nil {
		return nil, d.unavailable(err, seeDoctor)
	}
	if err := d.configure(ctx, m, s); err != nil {
		m.kill()
		return nil, d.unavailable(err, seeDoctor)
	}
	return &instance{machine: m, isolation: d.isolation(found), held: held(s)}, nil
}

func (d *Driver) unavailable(err error, fix string) error {
	return toolroom.Errorf(toolroom.CodeSandboxUnavailable, "the %s sandbox: %w", d.name, err).WithCLIHint("%s", d.fix(err, fix))
}

// fix returns advice for err, or otherwise if err is not known.
func (d *Driver) fix(err error, otherwise string) string {
	switch {
	case errors.Is(err, errLate):
		return "the host machine may be overloaded, or the image broken: check it with toolroom setup microvm --verify, or rebuild it without the flag"
	case errors.Is(err, syscall.ENOSPC):
		return "free disk space in " + d.o.Folder
	}
	return otherwise
}

const (
	setupFix  = "run toolroom setup microvm"
	seeDoctor = "toolroom doctor shows what is missing"
)

// machine returns a VM that waits for its settings.
func (d *Driver) machine(ctx context.Context, s sandbox.Spec, kvm bool) (*machine, error) {
	spec, err := d.spec(s, kvm)
	if err != nil {
		return nil, err
	}
	if !d.o.Cold {
		if m, err := d.fromSnapshot(ctx, spec); err == nil || ctx.Err() != nil {
			return m, err
		}
		// An error such as a full disk may prevent a snapshot, but not booting a VM.
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

// spec returns the shape of a VM that is large enough for s.
func (d *Driver) spec(s sandbox.Spec, kvm bool) (machineSpec, error) {
	initial, err := initrd(d.o.Folder, s.Guest)
	if err != nil {
		return machineSpec{}, err
	}
	packed, err := os.Stat(initial)
	if err != nil {
		return machineSpec{}, err
	}
	memory := s.Limits.Memory + ownMemory + 3*packed.Size() // the kernel unpacks the archive into at most half of the free memory
	return machineSpec{
		kernel: filepath.Join(d.o.Folder, kernelFile), initrd: initial, disk: filepath.Join(d.o.Folder, rootFile),
		guestArgs: s.Args, memory: (memory + memoryStep - 1) / memoryStep * memoryStep,
		cpus: max(1, int(math.Ceil(s.Limits.CPUs))), kvm: kvm, owner: proc.Owner(),
	}, nil
}

// configure sends a VM the settings of its run.
func (d *Driver) configure(ctx context.Context, m *machine, s sandbox.Spec) error {
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

// holds maps limits to the mechanisms by which VMs enforce them.
var holds = map[sandbox.Limit]string{
	sandbox.LimitWall:    "end of the machine",
	sandbox.LimitCPU:     "cgroup v2 and processors of the machine",
	sandbox.LimitMemory:  "cgroup v2 and memory of the machine",
	sandbox.LimitPIDs:    "cgroup v2 of the machine",
	sandbox.LimitDisk:    "size of a file system in memory",
	sandbox.LimitNetwork: "no network device",
	sandbox.LimitEgress:  sandbox.OverStream,
}

// held returns the limits that the VM for s enforces.
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

// Probe checks the image and the monitor, and boots a VM unless one has been booted with
// them before; the result is stored beside the image.
func (d *Driver) Probe(ctx context.Context) sandbox.Probe {
	unsupported := func(reason, fix string) sandbox.Probe {
		return sandbox.Probe{State: sandbox.Unsupported, Reason: reason, Fix: fix}
	}
	if runtime.GOOS != "linux" || runtime.GOARCH != "amd64" {
		return unsupported("VMs are supported on Linux on x86-64 only, not on "+runtime.GOOS+" on "+runtime.GOARCH, "use another runtime")
	}
	if _, err := exec.LookPath(d.o.Program); err != nil {
		return unsupported(d.o.Program+" is not installed", d.monitor.install())
	}
	manifest, err := readManifest(d.o.Folder)
	if errors.Is(err, fs.ErrNotExist) {
		return unsupported("there is no VM image in "+d.o.Folder, setupFix)
	}
	if err != nil {
		return sandbox.Probe{State: sandbox.Inconclusive, Reason: err.Error(), Fix: setupFix}
	}
	found, err := d.findAccelerator(ctx)
	if err != nil {
		p := unsupported("a VM does not boot: "+err.Error(), d.fix(err, setupFix))
		if ctx.Err() != nil {
			p.State = sandbox.Inconclusive
		}
		return p
	}
	p := sandbox.Probe{
		State: sandbox.Available, Version: found.Version + ", Linux " + manifest.Kernel,
		Holds: maps.Clone(holds), Languages: manifest.Languages, Isolation: d.isolation(found),
	}
	if !found.KVM {
		p.Version += fmt.Sprintf(" (%s, so the VM is emulated: slow, and QEMU does not consider emulation a security boundary)", found.Reason)
	}
	return p
}

func (d *Driver) isolation(found accelerator) string {
	if found.KVM {
		return "vm(" + d.name + "+kvm)"
	}
	return "vm(" + d.name + "+tcg)"
}
