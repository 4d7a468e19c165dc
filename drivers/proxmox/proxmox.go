// Package proxmox is the sandbox driver for LXC containers of Proxmox VE: each run has a
// container, cloned from a template in which a runner serves, and the guest starts under
// that runner, see package remote. The API is documented at
// https://pve.proxmox.com/pve-docs/api-viewer/.
package proxmox

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/toolroom/toolroom/drivers/turn"
	"github.com/toolroom/toolroom/internal/sandbox/remote"
	"github.com/toolroom/toolroom/sandbox"
)

// Options configures a driver.
type Options struct {
	// URL is the URL of the API: https://HOST:8006.
	URL string
	// Node is the name of the node with the containers.
	Node string
	// Token returns the API token: USER@REALM!TOKENID=UUID.
	Token func(context.Context) (string, error)
	// CA is the path of a PEM file with the certificates that must have signed the API's
	// certificate; the system's if empty.
	CA string
	// Template is the container from which runs are cloned; each clone is destroyed with
	// its run. Full copies its disks completely, for storage without linked clones. Pool
	// is the resource pool of the clones.
	Template int
	Full     bool
	Pool     string
	// Container, instead of Template, is one container for all runs. The driver starts it
	// if it does not run, and leaves it running.
	Container int
	// Port is the port of the runner inside (7071).
	Port int
	// Runner configures the connection to the runner inside, except its URL.
	Runner remote.Options
	// Machine and Owner identify this machine and process. Clones of a process that has
	// died, according to Alive, are destroyed by the next process.
	Machine, Owner string
	Alive          func(owner string) bool
}

// Driver starts guests in containers. Make one with [New].
type Driver struct {
	o   Options
	api *api
	// sweep cleans until that has succeeded once.
	sweep func(context.Context) ([]sandbox.Leftover, error)

	starting turn.Turn // held while starting the one container for all runs
	ids      turn.Turn // held from choosing an id until it is taken
}

// New returns a driver. Probe and Start report errors in o.
func New(o Options) *Driver {
	o.Port = cmp.Or(o.Port, 7071)
	d := &Driver{o: o, api: newAPI(o), starting: turn.New(), ids: turn.New()}
	d.sweep = turn.Once(func(ctx context.Context) ([]sandbox.Leftover, error) { return d.Clean(ctx, false) })
	return d
}

// Name returns "proxmox_lxc".
func (d *Driver) Name() string { return "proxmox_lxc" }

// Probe starts a container and asks the runner inside which limits it enforces.
func (d *Driver) Probe(ctx context.Context) sandbox.Probe {
	var version struct{ Version string }
	err := d.api.get(ctx, "/version", &version)
	var c *container
	if err == nil {
		_, _ = d.sweep(ctx) // a later run removes what cannot be removed now
		c, err = d.acquire(ctx, "probe")
	}
	if err != nil {
		return remote.FailedProbe(explain(err))
	}
	defer func() {
		ending, done := context.WithTimeout(context.WithoutCancel(ctx), releaseTimeout)
		defer done()
		_ = c.release(ending) // the next sweep removes what is left
	}()
	p := c.runner.Probe(ctx)
	if p.State == sandbox.Available {
		p.Isolation = isolationPrefix + p.Isolation
		p.Version = fmt.Sprintf("Proxmox VE %s at %s, %s", version.Version, d.o.URL, p.Version)
	}
	return p
}

// isolationPrefix is the first isolation layer of a guest.
const isolationPrefix = "lxc+"

// releaseTimeout bounds the removal of a container.
const releaseTimeout = time.Minute

// Start starts a container and a guest inside it.
func (d *Driver) Start(ctx context.Context, s sandbox.Spec) (sandbox.Sandbox, error) {
	c, err := d.acquire(ctx, s.Run)
	if err != nil {
		return nil, explain(err)
	}
	inner, err := c.runner.Start(ctx, s)
	if err != nil {
		ending, done := context.WithTimeout(context.WithoutCancel(ctx), releaseTimeout)
		defer done()
		return nil, errors.Join(err, c.release(ending))
	}
	return &instance{Sandbox: inner, container: c}, nil
}

// instance is a guest in a container.
type instance struct {
	sandbox.Sandbox
	container *container
}

func (b *instance) Isolation() string { return isolationPrefix + b.Sandbox.Isolation() }

// Kill ends the guest, which reports its usage, and then destroys the container, even if
// ending the guest failed.
func (b *instance) Kill(ctx context.Context) error {
	asking, done := context.WithTimeout(ctx, killGrace)
	defer done()
	err := b.Sandbox.Kill(asking)
	if b.container.lasting {
		return err
	}
	return b.container.release(ctx)
}

const killGrace = 3 * time.Second

// container is a running container with a runner.
type container struct {
	driver  *Driver
	id      int
	name    string // the host name of a clone
	lasting bool   // the container for all runs, which is not destroyed
	runner  *remote.Driver

	once sync.Once
	gone chan struct{} // closed when the container has been destroyed, with err
	err  error
}

// acquire returns a container whose runner serves.
func (d *Driver) acquire(ctx context.Context, run string) (_ *container, err error) {
	c := &container{driver: d, id: d.o.Container, lasting: d.o.Template == 0, gone: make(chan struct{})}
	if c.lasting {
		err = d.startLasting(ctx)
	} else if c.id, c.name, err = d.clone(ctx); err == nil {
		err = d.api.run(ctx, d.o.Node, "POST", c.path()+"/status/start", nil)
	}
	if c.id != 0 {
		defer func() {
			if err == nil {
				return
			}
			ending, done := context.WithTimeout(context.WithoutCancel(ctx), releaseTimeout)
			defer done()
			err = errors.Join(err, c.release(ending))
		}()
	}
	if err != nil {
		return nil, err
	}
	address, err := c.address(ctx)
	if err != nil {
		return nil, err
	}
	o := d.o.Runner
	scheme := "https://"
	if o.Plain {
		scheme = "http://"
	}
	o.URL = scheme + net.JoinHostPort(address, strconv.Itoa(d.o.Port))
	if err := ready(ctx, net.JoinHostPort(address, strconv.Itoa(d.o.Port))); err != nil {
		return nil, fmt.Errorf("container %d of run %s has the address %s, but no runner serves there: %w", c.id, run, address, err)
	}
	c.runner = remote.New(o)
	return c, nil
}

func (c *container) path() string {
	return fmt.Sprintf("/nodes/%s/lxc/%d", c.driver.o.Node, c.id)
}

// release destroys a clone, once. It continues in the background if ctx is done,
// because nothing else would destroy the clone.
func (c *container) release(ctx context.Context) error {
	if c.lasting {
		return nil
	}
	c.once.Do(func() {
		going, done := context.WithTimeout(context.WithoutCancel(ctx), releaseTimeout)
		go func() {
			defer done()
			defer close(c.gone)
			c.err = c.driver.destroy(going, c.path(), c.name)
		}()
	})
	select {
	case <-c.gone:
		return c.err
	case <-ctx.Done():
		return fmt.Errorf("container %d is still being destroyed: %w", c.id, context.Cause(ctx))
	}
}

// destroy stops and removes a clone as soon as no other task has locked it. It leaves a
// container with another name alone.
func (d *Driver) destroy(ctx context.Context, path, name string) error {
	return poll(ctx, func() (bool, error) {
		var config struct{ Hostname string }
		err := d.api.get(ctx, path+"/config", &config)
		switch {
		case errorContains(err, "does not exist"):
			return true, nil
		case err != nil:
			return false, err
		case config.Hostname != name:
			return false, fmt.Errorf("%s is %q, not the clone %q: left alone", path, config.Hostname, name)
		}
		// Ignore the error: stopping a container that does not run fails.
		_ = d.api.run(ctx, d.o.Node, "POST", path+"/status/stop", nil)
		err = d.api.run(ctx, d.o.Node, "DELETE", path, params{"purge": "1", "force": "1"})
		if errorContains(err, "locked") {
			return false, nil
		}
		return err == nil, err
	})
}

// address waits until the container has an address, and returns it.
func (c *container) address(ctx context.Context) (string, error) {
	var found string
	err := poll(ctx, func() (bool, error) {
		var interfaces []struct{ Name, Inet string }
		if err := c.driver.api.get(ctx, c.path()+"/interfaces", &interfaces); err != nil {
			return false, err
		}
		for _, i := range interfaces {
			address, _, _ := strings.Cut(i.Inet, "/")
			if ip := net.ParseIP(address); ip != nil && !ip.IsLoopback() && !ip.IsLinkLocalUnicast() {
				found = address
				return true, nil
			}
		}
		return false, nil
	})
	if err != nil {
		return "", fmt.Errorf("container %d has no address: %w", c.id, err)
	}
	return found, nil
}

// ready waits until a connection to address succeeds.
func ready(ctx context.Context, address string) error {
	var dialer net.Dialer
	var last error
	err := poll(ctx, func() (bool, error) {
		trying, done := context.WithTimeout(ctx, time.Second)
		defer done()
		conn, err := dialer.DialContext(trying, "tcp", address)
		if last = err; err != nil {
			return false, nil
		}
		return true, conn.Close()
	})
	return errors.Join(err, last)
}

// clone makes a container from the template. Another client may take the free id that
// the API returned, so clone retries. If it returns an error and an id, the clone may
// still be made.
func (d *Driver) clone(ctx context.Context) (number int, name string, err error) {
	for attempt := 1; ; attempt++ {
		task := ""
		if number, name, task, err = d.beginClone(ctx); err == nil {
			err = d.api.wait(ctx, d.o.Node, task)
			if _, ok := errors.AsType[*taskError](err); ok {
				return 0, "", err
			}
			return number, name, err
		}
		if !errorContains(err, "already exists") || attempt == cloneAttempts {
			return 0, "", err
		}
	}
}

// beginClone takes an id and starts the task that makes the clone.
func (d *Driver) beginClone(ctx context.Context) (number int, name, task string, err error) {
	end, err := d.ids.Take(ctx)
	if err != nil {
		return 0, "", "", err
	}
	defer end()
	var next id
	if err := d.api.get(ctx, "/cluster/nextid", &next); err != nil {
		return 0, "", "", err
	}
	name = d.cloneName()
	p := params{"newid": strconv.Itoa(int(next)), "hostname": name}
	if d.o.Full {
		p["full"] = "1"
	}
	if d.o.Pool != "" {
		p["pool"] = d.o.Pool
	}
	// Not interrupted, because an interrupted request could leave a clone. It has a time limit.
	task, err = d.api.begin(context.WithoutCancel(ctx), "POST", fmt.Sprintf("/nodes/%s/lxc/%d/clone", d.o.Node, d.o.Template), p)
	return int(next), name, task, err
}

const cloneAttempts = 5

// startLasting starts the one container for all runs, unless it already runs.
func (d *Driver) startLasting(ctx context.Context) error {
	end, err := d.starting.Take(ctx)
	if err != nil {
		return err
	}
	defer end()
	path := fmt.Sprintf("/nodes/%s/lxc/%d/status", d.o.Node, d.o.Container)
	var current struct{ Status string }
	if err := d.api.get(ctx, path+"/current", &current); err != nil || current.Status == "running" {
		return err
	}
	return d.api.run(ctx, d.o.Node, "POST", path+"/start", nil)
}

// cloneName returns the host name of a clone, which identifies its owner:
// toolroom-MACHINE-PID-START-RANDOM.
func (d *Driver) cloneName() string {
	var random [4]byte
	_, _ = rand.Read(random[:]) // never fails
	return fmt.Sprintf("%s%s-%s", d.clonePrefix(), d.o.Owner, hex.EncodeToString(random[:]))
}

func (d *Driver) clonePrefix() string { return "toolroom-" + d.o.Machine + "-" }

// Clean destroys the clones of processes of this machine that have died.
func (d *Driver) Clean(ctx context.Context, dry bool) ([]sandbox.Leftover, error) {
	if d.o.Alive == nil {
		return nil, nil
	}
	var all []struct {
		VMID id
		Name string
	}
	if err := d.api.get(ctx, fmt.Sprintf("/nodes/%s/lxc", d.o.Node), &all); err != nil {
		return nil, explain(err)
	}
	var left []sandbox.Leftover
	for _, c := range all {
		rest, ours := strings.CutPrefix(c.Name, d.clonePrefix())
		end := strings.LastIndex(rest, "-")
		if ours && end > 0 && !d.o.Alive(rest[:end]) {
			left = append(left, sandbox.Leftover{Kind: "container", Name: c.Name}.Remove(dry, func() error {
				return d.destroy(ctx, fmt.Sprintf("/nodes/%s/lxc/%d", d.o.Node, c.VMID), c.Name)
			}))
		}
	}
	return left, nil
}
