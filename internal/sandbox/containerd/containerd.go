//go:build linux

// Package containerd is the sandbox driver for containerd: every guest runs in
// a container of a namespace of our own, under runc, gVisor or Kata.
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
	"sync"
	"time"

	"github.com/containerd/containerd/api/types/runc/options"
	containerd "github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/contrib/seccomp"
	"github.com/containerd/containerd/v2/core/leases"
	"github.com/containerd/containerd/v2/pkg/namespaces"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/image"
	"github.com/toolroom/toolroom/internal/sandbox/mark"
	"github.com/toolroom/toolroom/internal/sandbox/oci"
	"github.com/toolroom/toolroom/sandbox"
)

// Options of a driver.
type Options struct {
	// Address is the socket; /run/containerd/containerd.sock if empty.
	Address string
	// Namespace is what our containers and images are in; toolroom if empty.
	Namespace string
	// Snapshotter is the daemon's default if empty.
	Snapshotter string
	// Image is what runs that name none get; [image.Name] if empty.
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

// offered are the runtimes that a run may choose. A name that is not known would
// be a program of the PATH, which the daemon starts as root.
var offered = []string{"runc", "runsc"}

// leaseTime is how long the daemon keeps what a start has made when the start
// is never heard of again.
const leaseTime = time.Hour

// cleanTimeout bounds the removal of a container whose start failed.
const cleanTimeout = 10 * time.Second

// Driver starts guests in containers. Make one with [New] or [NewKata].
type Driver struct {
	o    Options
	name string

	mu     sync.Mutex
	client *containerd.Client
}

// New makes a driver; the daemon is first asked when something is to be known.
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
	return &Driver{o: o, name: "containerd"}
}

// NewKata makes the driver whose containers are virtual machines of Kata.
func NewKata(o Options) *Driver {
	o.Runtime = KataShim
	d := New(o)
	d.name = "kata"
	return d
}

// Name is containerd or kata.
func (d *Driver) Name() string { return d.name }

// connect gives the connection to the daemon. What dead processes have left
// there is removed at the first one.
func (d *Driver) connect(ctx context.Context) (*containerd.Client, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.client != nil {
		return d.client, nil
	}
	c, err := d.dial(ctx)
	if err != nil {
		return nil, err
	}
	_, _ = d.clean(ctx, c, false) // what cannot be removed now can be later
	d.client = c
	return c, nil
}

// dial connects to the daemon. The client itself would wait for a socket that is
// not there.
func (d *Driver) dial(ctx context.Context) (*containerd.Client, error) {
	if err := knock(ctx, d.o.Address); err != nil {
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

// within puts the calls of ctx into our namespace.
func (d *Driver) within(ctx context.Context) context.Context {
	return namespaces.WithNamespace(ctx, d.o.Namespace)
}

// Start creates a container and starts its task.
func (d *Driver) Start(ctx context.Context, s sandbox.Spec) (_ sandbox.Sandbox, err error) {
	ctx = d.within(ctx)
	c, err := d.connect(ctx)
	if err != nil {
		return nil, d.unreachable(ctx, err)
	}
	if s.Image == "" {
		s.Image = d.o.Image
	}
	if s.Runtime == "" {
		s.Runtime = d.o.Runtime
	} else if s.Runtime != d.o.Runtime && (d.name == "kata" || !slices.Contains(offered, s.Runtime)) {
		return nil, toolroom.Errorf(toolroom.CodeInvalidArguments, "a run cannot choose the runtime %q under %s", s.Runtime, d.name).
			WithHint("containerd offers %s; others are set in code.runtimes.containerd.runtime", strings.Join(offered, ", "))
	}
	if len(s.Egress) > 0 && !hasLoopback(s.Runtime) {
		return nil, toolroom.Errorf(toolroom.CodeLimitNotEnforceable, "%s cannot keep to a list of hosts under the runtime %s", d.name, s.Runtime).
			WithHint("choose containerd/runc, docker/runsc or gvisor, or leave the list out")
	}
	b := &box{driver: d, isolation: isolation(s.Runtime, s.Profile), held: held(s)}
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

// create makes the container and its task. A lease keeps the daemon from taking
// the snapshot for garbage before the container holds it.
func (b *box) create(ctx context.Context, c *containerd.Client, s sandbox.Spec) error {
	d := b.driver
	img, err := c.GetImage(ctx, s.Image)
	if err != nil {
		return err
	}
	runtime, err := runtimeOption(s.Runtime)
	if err != nil {
		return err
	}
	leased, release, err := c.WithLease(ctx, leases.WithRandomID(), leases.WithExpiration(leaseTime), leases.WithLabels(mark.Labels(s.Run)))
	if err != nil {
		return err
	}
	defer func() {
		ending, done := context.WithTimeout(context.WithoutCancel(leased), cleanTimeout)
		defer done()
		_ = release(ending) // it ends by itself in the end
	}()
	id := "toolroom-" + strings.ToLower(rand.Text())
	spec := oci.Spec(s, oci.Options{ID: id, Root: "rootfs"})
	if s.Profile != sandbox.Dev {
		spec.Linux.Seccomp = seccomp.DefaultProfile(spec)
	}
	whole, done := context.WithTimeout(context.WithoutCancel(leased), makeTimeout)
	defer done()
	b.container, err = c.NewContainer(
		whole, id,
		containerd.WithSnapshotter(d.o.Snapshotter),
		containerd.WithImage(img),
		containerd.WithNewSnapshot(id, img),
		containerd.WithContainerLabels(mark.Labels(s.Run)),
		runtime,
		containerd.WithSpec(spec),
	)
	if err != nil {
		return errors.Join(err, d.removeSnapshot(leased, c, id))
	}
	return b.run(leased)
}

// removeSnapshot removes what a container that was not made would have had.
func (d *Driver) removeSnapshot(ctx context.Context, c *containerd.Client, id string) error {
	ctx, done := context.WithTimeout(context.WithoutCancel(ctx), cleanTimeout)
	defer done()
	return ignoreNotFound(c.SnapshotService(d.o.Snapshotter).Remove(ctx, id))
}

// runtimeOption is the shim for a runtime. gVisor runs under the shim of runc:
// its own works with the CRI alone.
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

// LoadImage puts the images of an archive into our namespace, unpacked.
func (d *Driver) LoadImage(ctx context.Context, archive io.Reader) error {
	ctx = d.within(ctx)
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
