// Package docker is the sandbox driver for the Docker Engine API, which Podman
// supports, too: every guest runs in a container of its own, and its attached stream
// is the bridge.
package docker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/moby/moby/client"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/drivers/image"
	"github.com/toolroom/toolroom/drivers/oci"
	"github.com/toolroom/toolroom/drivers/turn"
	"github.com/toolroom/toolroom/internal/proc"
	"github.com/toolroom/toolroom/sandbox"
)

// Options configures a driver.
type Options struct {
	// Host is the address of the engine: unix:///path or tcp://host:port. The default is
	// unix:///var/run/docker.sock.
	Host string
	// CertFolder contains ca.pem, cert.pem and key.pem for an engine behind TLS, like
	// DOCKER_CERT_PATH; empty means no TLS.
	CertFolder string
	// Image is the image of runs that name none; [image.Name] if empty.
	Image string
	// Pull decides whether missing images are pulled.
	Pull Pull
	// Runtime is the engine's runtime of runs that name none, such as runsc; empty means
	// the engine's default.
	Runtime string
}

// Pull is a policy for missing images.
type Pull string

// The policies. The default image is on no registry and is never pulled.
const (
	PullNever   Pull = "never" // the default
	PullMissing Pull = "missing"
)

const defaultHost = "unix:///var/run/docker.sock"

// cleanTimeout bounds the removal of a container that failed to start.
const cleanTimeout = 10 * time.Second

// Driver starts guests in containers. Make one with [New].
type Driver struct {
	o Options
	// connect returns the connection to the engine. It connects at the first call.
	connect func(context.Context) (*engine, error)
}

// engine is a connection to the engine, and the engine's description of itself.
type engine struct {
	*client.Client
	info engineInfo
}

// New returns a driver. It does not contact the engine.
func New(o Options) *Driver {
	if o.Host == "" {
		o.Host = defaultHost
	}
	if o.Image == "" {
		o.Image = image.Name
	}
	d := &Driver{o: o}
	d.connect = turn.Once(d.open)
	return d
}

// Name returns "docker".
func (d *Driver) Name() string { return "docker" }

// open connects to the engine, and removes the leftovers of dead processes.
func (d *Driver) open(ctx context.Context) (*engine, error) {
	e, err := d.dial(ctx)
	if err == nil {
		_, _ = clean(ctx, e, false) // a later run removes what cannot be removed now
	}
	return e, err
}

// dial connects to the engine and reads its description.
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
	f := engineInfoOf(info.Info)
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
	} else if s.Runtime != d.o.Runtime && !slices.Contains(e.info.runtimes, s.Runtime) {
		return nil, toolroom.Errorf(toolroom.CodeInvalidArguments, "the engine has no runtime %q", s.Runtime).
			WithHint("it has %s; dockerd --add-runtime NAME=/path adds one", strings.Join(e.info.runtimes, ", "))
	}
	gVisor := e.info.isGVisor(s.Runtime)
	if gVisor {
		if err := oci.CheckGVisor("docker", s); err != nil {
			return nil, err
		}
	}
	options := createOptions(s, e.info.podman, gVisor)
	id, err := d.create(ctx, e, options)
	if err != nil {
		return nil, d.explain(s, err)
	}
	b := &instance{engine: e, id: id, isolation: e.info.isolation(s.Runtime, s.Profile), held: e.info.held(s)}
	defer func() {
		if err != nil {
			ending, done := context.WithTimeout(context.WithoutCancel(ctx), cleanTimeout)
			defer done()
			err = errors.Join(err, b.Kill(ending))
		}
	}()
	if err := b.attach(ctx); err != nil {
		if e.info.podman { // Podman prepares the container here, but only a start reports why it cannot
			if _, startErr := e.ContainerStart(ctx, id, client.ContainerStartOptions{}); startErr != nil {
				err = startErr
			}
		}
		return nil, d.explain(s, err)
	}
	if _, err := e.ContainerStart(ctx, id, client.ContainerStartOptions{}); err != nil {
		return nil, d.explain(s, err)
	}
	return b, nil
}

// create makes the container, pulling its image if the policy says so. It does not
// interrupt the creation, because an interrupted one could leave a container with an
// unknown id.
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

// pullError reports that an image could not be pulled.
type pullError struct {
	image string
	cause error
}

func (e *pullError) Error() string { return fmt.Sprintf("pull the image %s: %v", e.image, e.cause) }

func (e *pullError) Unwrap() error { return e.cause }

func (d *Driver) pulls(name string) bool { return d.o.Pull == PullMissing && name != image.Name }

// Clean removes the containers of processes that have died.
func (d *Driver) Clean(ctx context.Context, dry bool) ([]sandbox.Leftover, error) {
	e, err := d.dial(ctx)
	if err != nil {
		return nil, d.unreachable(ctx, err)
	}
	defer e.Close()
	return clean(ctx, e, dry)
}

func clean(ctx context.Context, e *engine, dry bool) ([]sandbox.Leftover, error) {
	list, err := e.ContainerList(ctx, client.ContainerListOptions{All: true, Filters: client.Filters{}.Add("label", proc.LabelOwner)})
	if err != nil {
		return nil, err
	}
	var left []sandbox.Leftover
	for _, c := range list.Items {
		if !proc.Abandoned(c.Labels) {
			continue
		}
		left = append(left, sandbox.Leftover{Kind: "container", Name: strings.TrimSpace(c.ID + " " + c.Labels[proc.LabelRun])}.Remove(dry, func() error {
			_, err := e.ContainerRemove(ctx, c.ID, client.ContainerRemoveOptions{Force: true, RemoveVolumes: true})
			return err
		}))
	}
	return left, nil
}

// LoadImage loads the images of an archive, as written by docker save, into the engine.
func (d *Driver) LoadImage(ctx context.Context, archive io.Reader) error {
	e, err := d.connect(ctx)
	if err != nil {
		return d.unreachable(ctx, err)
	}
	result, err := e.ImageLoad(ctx, io.MultiReader(archive), // wrapped, so that the client cannot close it
		client.ImageLoadWithQuiet(true))
	if err != nil {
		return fmt.Errorf("docker: load the image: %w", err)
	}
	defer result.Close()
	// The engine answers 200 and reports failures in the stream.
	for stream := json.NewDecoder(result); ; {
		var message struct{ Error string }
		if err := stream.Decode(&message); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("docker: load the image: %w", err)
		}
		if message.Error != "" {
			return fmt.Errorf("docker: load the image: %s", message.Error)
		}
	}
}
