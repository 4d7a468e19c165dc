// Package remote has both sides of the sandbox driver for another machine: a [Driver] asks a
// [Runner] there, which starts the guest under a driver of its own. A sandbox ends with the
// connection of its client. Requests are signed, see [Sign]; each bridge has a connection of
// its own. The same protocol, over a Unix socket and
// without signatures, reaches the drivers of programs on this machine, see package program.
//
// [Sign] and a [Verifier] authenticate requests by an HMAC-SHA256 of their time, a nonce,
// their method, path and body, with a secret that both sides know. They provide no
// confidentiality; that needs TLS.
package remote

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/sandbox"
)

// Options configures the connection to a runner.
type Options struct {
	// URL is the runner's URL: https://HOST:PORT, or http:// for a runner on this machine.
	URL string
	// Secret returns the secret that identifies this client to the runner.
	Secret func(context.Context) (string, error)
	// CA is the path of a PEM file with the certificates that must have signed the runner's
	// certificate; the system's if empty. Cert and Key are the paths of this client's
	// certificate, if the runner requires one. ServerName is the name in the runner's
	// certificate, if it is not the host of URL.
	CA, Cert, Key, ServerName string
	// Plain permits http:// to another machine. Anyone on the network can then read and
	// change programs and their data.
	Plain bool
	// Silence is the time without packets after which a connection is given up (30 s).
	Silence time.Duration
}

// Driver starts guests on a runner. Make one with [New].
type Driver struct {
	client *client
}

// New returns a driver. Probe and Start report errors in o.
func New(o Options) *Driver { return &Driver{client: newClient(o)} }

// Name returns "remote", or the name of a local program's driver.
func (d *Driver) Name() string {
	if l := d.client.local; l != nil {
		return l.Name
	}
	return "remote"
}

// Probe returns the probe of the runner's driver.
func (d *Driver) Probe(ctx context.Context) sandbox.Probe {
	local := d.client.local != nil
	if !local { // a local driver may start a sandbox, and callers know how long they wait
		var done context.CancelFunc
		ctx, done = context.WithTimeout(ctx, probeTimeout)
		defer done()
	}
	var report Report
	if err := d.client.do(ctx, http.MethodGet, PathProbe, nil, &report); err != nil {
		return FailedProbe(err)
	}
	p := report.Probe
	if local {
		return p
	}
	if p.State != sandbox.Available {
		p.Reason = fmt.Sprintf("the runner's %s driver: %s", report.Driver, p.Reason)
		return p
	}
	p.Isolation = isolationPrefix + p.Isolation
	p.Folders, p.Layers = false, false // an order to another machine has neither; see [newOrder]
	p.Version = fmt.Sprintf("%s at %s: %s", report.Driver, d.client.o.URL, p.Version)
	return p
}

// FailedProbe returns the probe of a driver that cannot be used because of err.
func FailedProbe(err error) sandbox.Probe {
	e := toolroom.AsError(err)
	p := sandbox.Probe{State: sandbox.Unsupported, Reason: e.Message, Fix: e.Hints()}
	if e.Retryable {
		p.State = sandbox.Inconclusive
	}
	return p
}

// probeTimeout bounds the time in which a runner must answer, because other calls wait for
// the probe.
const probeTimeout = 5 * time.Second

// isolationPrefix is the first isolation layer of a guest: the network.
const isolationPrefix = "remote+"

// Start orders a sandbox and opens its stream.
func (d *Driver) Start(ctx context.Context, s sandbox.Spec) (_ sandbox.Sandbox, err error) {
	local := d.client.local != nil
	order := newOrder(s, local)
	b := &instance{client: d.client, path: PathSandboxes + "/" + order.ID}
	defer func() {
		if err != nil { // the runner may have started the sandbox even if its answer was lost
			limit := startCleanup
			if local {
				limit = localCleanup
			}
			ending, done := context.WithTimeout(context.WithoutCancel(ctx), limit)
			defer done()
			_ = b.Kill(ending)
		}
	}()
	if err := d.client.do(ctx, http.MethodPost, PathSandboxes, order, &b.started); err != nil {
		return nil, err
	}
	if b.stream, err = d.client.upgrade(ctx, b.path+"/stream"); err != nil {
		return nil, err
	}
	return b, nil
}

// startCleanup bounds the removal of a sandbox that failed to start. A runner that cannot
// be reached removes it by itself.
const startCleanup = 3 * time.Second

// localCleanup is startCleanup for a program on this machine, whose drivers remove
// everything before they answer.
const localCleanup = 20 * time.Second

func newID() string {
	var id [16]byte
	_, _ = rand.Read(id[:]) // never fails
	return hex.EncodeToString(id[:])
}

// Local configures the connection to a driver of a program on this machine.
type Local struct {
	// Name is the driver's name, and the first part of its paths.
	Name string
	// Dial connects to the program's socket.
	Dial func(context.Context) (net.Conn, error)
	// Lost explains why a request got no answer.
	Lost func(error) error
}

// NewLocal returns a driver of a program on this machine. It returns the program's errors,
// isolation and limits unchanged.
func NewLocal(l Local) *Driver {
	transport := &http.Transport{
		DialContext:         func(ctx context.Context, _, _ string) (net.Conn, error) { return l.Dial(ctx) },
		MaxIdleConnsPerHost: 8, MaxResponseHeaderBytes: 64 << 10,
	}
	c := &client{local: &l, base: "http://program/" + l.Name}
	h := &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	c.http = func() (*http.Client, error) { return h, nil }
	return &Driver{client: c}
}

// Configure sets the settings of a local driver.
func (d *Driver) Configure(ctx context.Context, settings json.RawMessage) error {
	return d.client.do(ctx, http.MethodPut, PathSettings, settings, nil)
}

// Clean lists and removes what processes that have ended have left behind; see
// [sandbox.Cleaner]. A runner on another machine cleans by itself.
func (d *Driver) Clean(ctx context.Context, dry bool) ([]sandbox.Leftover, error) {
	if d.client.local == nil {
		return nil, nil
	}
	var c Cleaned
	err := d.client.do(ctx, http.MethodPost, PathClean+"?dry="+strconv.FormatBool(dry), nil, &c)
	if err == nil && c.Error != "" {
		err = errors.New(c.Error)
	}
	return c.Leftovers, err
}
