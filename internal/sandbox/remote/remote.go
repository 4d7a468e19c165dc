// Package remote is the sandbox driver for another machine: a runner there, see
// package runner, starts the guest under a driver of its own. Requests are
// signed, see package signed; the bridge is a connection of its own.
package remote

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"net/http"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/sandbox"
)

// Options say where a runner is, and how it is spoken to.
type Options struct {
	// URL of the runner: https://HOST:PORT, or http:// for one on this machine.
	URL string
	// Secret gives the secret that the runner knows this client by.
	Secret func(context.Context) (string, error)
	// CA is the path of a PEM file with the certificates that the runner's must
	// be signed by; the system's if empty. Cert and Key are the paths of this
	// client's, where the runner asks for one. ServerName is the name in the
	// runner's certificate, where that is not the host of URL.
	CA, Cert, Key, ServerName string
	// Plain permits http:// to another machine: whoever is on the way reads
	// programs and their data, and may change them.
	Plain bool
	// Silence is how long the network may carry nothing before a connection is
	// given up (30 s).
	Silence time.Duration
}

// Driver starts guests on a runner. Make one with [New].
type Driver struct {
	client *client
}

// New makes a driver. What is wrong with o is told by Probe and Start.
func New(o Options) *Driver { return &Driver{client: newClient(o)} }

// Name is remote.
func (d *Driver) Name() string { return "remote" }

// Probe is what the runner's driver holds there.
func (d *Driver) Probe(ctx context.Context) sandbox.Probe {
	ctx, done := context.WithTimeout(ctx, probeTimeout)
	defer done()
	var report Report
	if err := d.client.do(ctx, http.MethodGet, PathProbe, nil, &report); err != nil {
		e := toolroom.AsError(err)
		p := sandbox.Probe{State: sandbox.Unsupported, Reason: e.Message, Fix: e.Hint}
		if e.Retryable {
			p.State = sandbox.Inconclusive
		}
		return p
	}
	p := report.Probe
	if p.State != sandbox.Available {
		p.Reason = fmt.Sprintf("the runner's %s driver: %s", report.Driver, p.Reason)
		return p
	}
	p.Isolation = wall + p.Isolation
	p.Version = fmt.Sprintf("%s at %s: %s", report.Driver, d.client.o.URL, p.Version)
	return p
}

// probeTimeout is how long a runner may take to answer: others wait meanwhile.
const probeTimeout = 5 * time.Second

// wall is what stands around a guest first: the network.
const wall = "remote+"

// Start orders a sandbox and opens its stream.
func (d *Driver) Start(ctx context.Context, s sandbox.Spec) (_ sandbox.Sandbox, err error) {
	order := Order{
		ID: newID(), Run: s.Run, Profile: s.Profile, Limits: s.Limits, Env: s.Env, Image: s.Image,
		Runtime: s.Runtime, Egress: s.Egress, Unasked: s.Unasked, BestEffort: s.BestEffort,
	}
	b := &box{client: d.client, path: PathSandboxes + "/" + order.ID}
	defer func() {
		if err != nil { // the runner may have started it, whatever we heard
			ending, done := context.WithTimeout(context.WithoutCancel(ctx), startCleanup)
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

// startCleanup bounds the end of a sandbox whose start failed. A runner that
// cannot be reached ends it by itself.
const startCleanup = 3 * time.Second

func newID() string {
	var id [16]byte
	_, _ = rand.Read(id[:]) // never fails
	return hex.EncodeToString(id[:])
}
