//go:build linux

// Package containerd is the sandbox driver for containerd: every guest runs in a
// container of its own containerd namespace, under runc, gVisor or Kata.
package containerd

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/containerd/containerd/api/types/runc/options"
	containerd "github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/contrib/seccomp"
	"github.com/containerd/containerd/v2/core/leases"
	"github.com/containerd/containerd/v2/pkg/namespaces"
	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/drivers/image"
	"github.com/toolroom/toolroom/drivers/oci"
	"github.com/toolroom/toolroom/drivers/turn"
	"github.com/toolroom/toolroom/internal/guest"
	"github.com/toolroom/toolroom/internal/proc"
	"github.com/toolroom/toolroom/sandbox"
)

// Options configures a driver.
type Options struct {
	// Address is the path of the socket; /run/containerd/containerd.sock if empty.
	Address string
	// Namespace is the containerd namespace of containers and images; toolroom if empty.
	Namespace string
	// Snapshotter is the name of a snapshotter; the daemon's default if empty.
	Snapshotter string
	// Image is the image of runs that name none; [image.Name] if empty.
	Image string
	// Runtime is runc (the default), runsc, or the full name of a shim such as
	// io.containerd.kata.v2.
	Runtime string
}

const (
	runcShim = "io.containerd.runc.v2"
	// KataShim is the runtime of the driver kata.
	KataShim = "io.containerd.kata.v2"
)

// allowedRuntimes are the runtimes that a run may choose. Any other name would be a program of
// the PATH that the daemon starts as root.
var allowedRuntimes = []string{"runc", "runsc"}

// leaseTime is the time after which the daemon removes the remains of a start whose
// process has died.
const leaseTime = time.Hour

// cleanTimeout bounds the removal of a container that failed to start.
const cleanTimeout = 10 * time.Second

// Driver starts guests in containers. Make one with [New] or [NewKata].
type Driver struct {
	o    Options
	name string
	// connect returns the connection to the daemon. It connects at the first call.
	connect func(context.Context) (*containerd.Client, error)
}

// New returns a driver. It does not contact the daemon.
func New(o Options) *Driver {
	if o.Address == "" {
		o.Address = "/run/containerd/containerd.sock"
	}
	if o.Namespace == "" {
		o.Namespace = "toolroom"
	}
	if o.Image == "" {
		o.Image = image.Name
	}
	d := &Driver{o: o, name: "containerd"}
	d.connect = turn.Once(d.open)
	return d
}

// NewKata returns the driver whose containers are Kata virtual machines.
func NewKata(o Options) *Driver {
	o.Runtime = KataShim
	d := New(o)
	d.name = "kata"
	return d
}

// Name returns "containerd" or "kata".
func (d *Driver) Name() string { return d.name }

// open connects to the daemon, and removes the leftovers of dead processes.
func (d *Driver) open(ctx context.Context) (*containerd.Client, error) {
	c, err := d.dial(ctx)
	if err == nil {
		_, _ = d.clean(ctx, c, false) // a later run removes what cannot be removed now
	}
	return c, err
}

// dial connects to the daemon. It checks the socket first, because the client would wait
// for a missing one.
func (d *Driver) dial(ctx context.Context) (*containerd.Client, error) {
	if err := tryConnect(ctx, d.o.Address); err != nil {
		return nil, err
	}
	c, err := containerd.New(d.o.Address, containerd.WithDefaultNamespace(d.o.Namespace), containerd.WithTimeout(dialTimeout))
	if err != nil {
		return nil, err
	}
	if _, err := c.Version(ctx); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// withNamespace returns a context for calls in the driver's namespace.
func (d *Driver) withNamespace(ctx context.Context) context.Context {
	return namespaces.WithNamespace(ctx, d.o.Namespace)
}

// Start creates a container and starts its task.
func (d *Driver) Start(ctx context.Context, s sandbox.Spec) (_ sandbox.Sandbox, err error) {
	ctx = d.withNamespace(ctx)
	c, err := d.connect(ctx)
	if err != nil {
		return nil, d.unreachable(ctx, err)
	}
	if s.Image == "" {
		s.Image = d.o.Image
	}
	if s.Runtime == "" {
		s.Runtime = d.o.Runtime
	} else if s.Runtime != d.o.Runtime && (d.name == "kata" || !slices.Contains(allowedRuntimes, s.Runtime)) {
		return nil, toolroom.Errorf(toolroom.CodeInvalidArguments, "a run cannot choose the runtime %q under %s", s.Runtime, d.name).
			WithHint("containerd offers %s; set others in code.runtimes.containerd.runtime", strings.Join(allowedRuntimes, ", "))
	}
	if len(s.Egress) > 0 && !hasLoopback(s.Runtime) {
		return nil, toolroom.Errorf(toolroom.CodeLimitNotEnforceable, "%s cannot limit the network to a list of hosts under the runtime %s", d.name, s.Runtime).
			WithHint("choose containerd/runc, docker/runsc or gvisor, or remove the list")
	}
	if len(s.Folders) > 0 && !hasFolders(s.Runtime) {
		return nil, toolroom.Errorf(toolroom.CodeLimitNotEnforceable, "%s cannot show folders of this machine under the runtime %s: it runs a virtual machine, whose kernel would not hold the rules about files that Toolroom enforces", d.name, s.Runtime).
			WithHint("choose containerd/runc, docker or gvisor")
	}
	if isGVisor(s.Runtime) {
		if err := oci.CheckGVisor(d.name, s); err != nil {
			return nil, err
		}
	}
	b := &instance{driver: d, isolation: isolation(s.Runtime, s.Profile), held: held(s)}
	defer func() {
		if err != nil {
			ending, done := context.WithTimeout(context.WithoutCancel(ctx), cleanTimeout)
			defer done()
			err = errors.Join(err, b.Kill(ending))
		}
	}()
	if err := b.create(ctx, c, s); err != nil {
		return nil, d.explain(ctx, s, err)
	}
	return b, nil
}

// create makes the container and its task. A lease keeps the daemon's garbage collector
// from removing the snapshot before the container uses it.
func (b *instance) create(ctx context.Context, c *containerd.Client, s sandbox.Spec) error {
	d := b.driver
	img, err := c.GetImage(ctx, s.Image)
	if err != nil {
		return err
	}
	runtime, err := runtimeOption(s.Runtime)
	if err != nil {
		return err
	}
	leased, release, err := c.WithLease(ctx, leases.WithRandomID(), leases.WithExpiration(leaseTime), leases.WithLabels(proc.Labels(s.Run)))
	if err != nil {
		return err
	}
	defer func() {
		ending, done := context.WithTimeout(context.WithoutCancel(leased), cleanTimeout)
		defer done()
		_ = release(ending) // otherwise the lease expires
	}()
	id := "toolroom-" + strings.ToLower(rand.Text())
	spec := oci.Spec(s, oci.Options{ID: id, Root: "rootfs", GVisor: isGVisor(s.Runtime)})
	// The shim keeps the guest's stdin open after this process has ended.
	spec.Process.Env = append(spec.Process.Env, guest.AliveEnv+"=1")
	spec.Linux.Seccomp = seccomp.DefaultProfile(spec)
	if s.Networked() {
		withoutUnixSockets(spec.Linux.Seccomp)
	}
	whole, done := context.WithTimeout(context.WithoutCancel(leased), makeTimeout)
	defer done()
	b.container, err = c.NewContainer(
		whole, id,
		containerd.WithSnapshotter(d.o.Snapshotter),
		containerd.WithImage(img),
		containerd.WithNewSnapshot(id, img),
		containerd.WithContainerLabels(proc.Labels(s.Run)),
		runtime,
		containerd.WithSpec(spec),
	)
	if err != nil {
		return errors.Join(err, d.removeSnapshot(leased, c, id))
	}
	return b.run(leased)
}

// withoutUnixSockets leaves a container sockets of the internet and of netlink only: with the
// network of the host machine come the abstract Unix sockets of its services.
func withoutUnixSockets(p *specs.LinuxSeccomp) {
	p.Syscalls = slices.DeleteFunc(p.Syscalls, func(rule specs.LinuxSyscall) bool {
		return slices.Equal(rule.Names, []string{"socket"})
	})
	for i := range p.Syscalls { // of 32-bit programs, whose arguments a filter cannot see
		p.Syscalls[i].Names = slices.DeleteFunc(p.Syscalls[i].Names, func(name string) bool { return name == "socketcall" || name == "socket" })
	}
	for _, domain := range []uint64{unix.AF_INET, unix.AF_INET6, unix.AF_NETLINK} {
		p.Syscalls = append(p.Syscalls, specs.LinuxSyscall{
			Names: []string{"socket"}, Action: specs.ActAllow,
			Args: []specs.LinuxSeccompArg{{Index: 0, Value: domain, Op: specs.OpEqualTo}},
		})
	}
}

// removeSnapshot removes the snapshot of a container that could not be made.
func (d *Driver) removeSnapshot(ctx context.Context, c *containerd.Client, id string) error {
	ctx, done := context.WithTimeout(context.WithoutCancel(ctx), cleanTimeout)
	defer done()
	return ignoreNotFound(c.SnapshotService(d.o.Snapshotter).Remove(ctx, id))
}

// runtimeOption returns the shim of a runtime. gVisor runs under runc's shim, because
// its own works only with the CRI.
func runtimeOption(name string) (containerd.NewContainerOpts, error) {
	switch {
	case name == "" || name == "runc":
		return containerd.WithRuntime(runcShim, &options.Options{}), nil
	case name == "kata":
		return containerd.WithRuntime(KataShim, nil), nil
	case strings.Contains(name, "."):
		return containerd.WithRuntime(name, nil), nil
	}
	binary, err := exec.LookPath(name)
	if err != nil {
		return nil, fmt.Errorf("the runtime %s: %w", name, err)
	}
	return containerd.WithRuntime(runcShim, &options.Options{BinaryName: binary}), nil
}

// LoadImage loads and unpacks the images of an archive in the driver's namespace.
func (d *Driver) LoadImage(ctx context.Context, archive io.Reader) error {
	ctx = d.withNamespace(ctx)
	c, err := d.connect(ctx)
	if err != nil {
		return d.unreachable(ctx, err)
	}
	imported, err := c.Import(ctx, archive)
	if err != nil {
		return fmt.Errorf("containerd: load the image: %w", err)
	}
	for _, i := range imported {
		if err := containerd.NewImage(c, i).Unpack(ctx, d.o.Snapshotter); err != nil {
			return fmt.Errorf("containerd: unpack the image: %w", err)
		}
	}
	return nil
}
