// Package docker is the sandbox driver for the Docker Engine API, which Podman
// speaks too: every guest runs in a container of its own, whose attach stream
// is the bridge.
package docker

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/moby/moby/client"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/image"
	"github.com/toolroom/toolroom/sandbox"
)

// Options of a driver.
type Options struct {
	// Host is where the engine listens: unix:///path or tcp://host:port. Empty is
	// unix:///var/run/docker.sock.
	Host string
	// CertFolder has ca.pem, cert.pem and key.pem for an engine behind TLS, as
	// DOCKER_CERT_PATH names it; empty is no TLS.
	CertFolder string
	// Image is what runs that name none get; [image.Name] if empty.
	Image string
	// Pull says what becomes of an image that the engine does not have.
	Pull Pull
	// Runtime is the engine's runtime for runs that name none, such as runsc;
	// empty is the engine's default.
	Runtime string
}

// Pull is a policy for images that are not there.
type Pull string

// The policies. The default image is on no registry and never pulled.
const (
	PullNever   Pull = "never" // the default
	PullMissing Pull = "missing"
)

const defaultHost = "unix:///var/run/docker.sock"

// cleanTimeout bounds the removal of a container whose start failed.
const cleanTimeout = 10 * time.Second

// Driver starts guests in containers. Make one with [New].
type Driver struct {
	o Options

	mu     sync.Mutex
	engine *engine
}

// engine is a connection to the engine, and what it said of itself.
type engine struct {
	*client.Client
	facts facts
}

// New makes a driver; the engine is first asked when something is to be known.
func New(o Options) *Driver {
	if o.Host == "" {
		o.Host = defaultHost
	}
	if o.Image == "" {
		o.Image = image.Name
	}
	return &Driver{o: o}
}

// Name is docker.
func (d *Driver) Name() string { return "docker" }

// connect gives the connection to the engine. What dead processes have left
// there is removed at the first one.
func (d *Driver) connect(ctx context.Context) (*engine, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.engine != nil {
		return d.engine, nil
	}
	e, err := d.dial(ctx)
	if err != nil {
		return nil, err
	}
	_, _ = clean(ctx, e, false) // what cannot be removed now can be later
	d.engine = e
	return e, nil
}

// dial connects to the engine and asks what it is.
func (d *Driver) dial(ctx context.Context) (*engine, error) {
	options := []client.Opt{client.WithHost(d.o.Host), client.WithUserAgent("toolroom")}
	if folder := d.o.CertFolder; folder != "" {
		options = append(options, client.WithTLSClientConfig(
			filepath.Join(folder, "ca.pem"), filepath.Join(folder, "cert.pem"), filepath.Join(folder, "key.pem")))
	}
	c, err := client.New(options...)
	if err != nil {
		return nil, err
	}
	info, err := c.Info(ctx, client.InfoOptions{})
	if err != nil {
		c.Close()
		return nil, err
	}
	version, err := c.ServerVersion(ctx, client.ServerVersionOptions{})
	if err != nil {
		c.Close()
		return nil, err
	}
	f := factsOf(info.Info)
	f.podman = isPodman(version)
	return &engine{c, f}, nil
}

// Start creates a container, attaches to it and starts it.
func (d *Driver) Start(ctx context.Context, s sandbox.Spec) (_ sandbox.Sandbox, err error) {
	e, err := d.connect(ctx)
	if err != nil {
		return nil, d.unreachable(ctx, err)
	}
	if s.Image == "" {
		s.Image = d.o.Image
	}
	if s.Runtime == "" {
		s.Runtime = d.o.Runtime
	} else if s.Runtime != d.o.Runtime && !slices.Contains(e.facts.runtimes, s.Runtime) {
		return nil, toolroom.Errorf(toolroom.CodeInvalidArguments, "the engine has no runtime %q", s.Runtime).
			WithHint("it has %s; dockerd --add-runtime NAME=/path adds one", strings.Join(e.facts.runtimes, ", "))
	}
	options := createOptions(s, e.facts.podman)
	id, err := d.create(ctx, e, options)
	if err != nil {
		return nil, d.explain(s, err)
	}
	b := &box{engine: e, id: id, isolation: e.facts.isolation(s.Runtime, s.Profile), held: e.facts.held(s)}
	defer func() {
		if err != nil {
			ending, done := context.WithTimeout(context.WithoutCancel(ctx), cleanTimeout)
			defer done()
			err = errors.Join(err, b.Kill(ending))
		}
	}()
	if err := b.attach(ctx); err != nil {
		if e.facts.podman { // it prepares the container here, and why it cannot only a start tells
			if _, told := e.ContainerStart(ctx, id, client.ContainerStartOptions{}); told != nil {
				err = told
			}
		}
		return nil, d.explain(s, err)
	}
	if _, err := e.ContainerStart(ctx, id, client.ContainerStartOptions{}); err != nil {
		return nil, d.explain(s, err)
	}
	return b, nil
}

// create makes the container, pulling its image where the policy says so. A
// creation is not interrupted: one that was would leave a container whose id
// nobody knows.
func (d *Driver) create(ctx context.Context, e *engine, o client.ContainerCreateOptions) (string, error) {
	whole, done := context.WithTimeout(context.WithoutCancel(ctx), cleanTimeout)
	defer done()
	created, err := e.ContainerCreate(whole, o)
	if cerrdefs.IsNotFound(err) && d.pulls(o.Config.Image) {
		pull, perr := e.ImagePull(ctx, o.Config.Image, client.ImagePullOptions{})
		if perr == nil {
			perr = pull.Wait(ctx)
		}
		if perr != nil {
			return "", &pullError{o.Config.Image, perr}
		}
		again, done := context.WithTimeout(context.WithoutCancel(ctx), cleanTimeout)
		defer done()
		created, err = e.ContainerCreate(again, o)
	}
	return created.ID, err
}

// pullError is why an image could not be pulled.
type pullError struct {
	image string
	cause error
}

func (e *pullError) Error() string { return fmt.Sprintf("pull the image %s: %v", e.image, e.cause) }

func (e *pullError) Unwrap() error { return e.cause }

func (d *Driver) pulls(name string) bool { return d.o.Pull == PullMissing && name != image.Name }
