package program

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"sync"

	"github.com/toolroom/toolroom/internal/sandbox/remote"
	"github.com/toolroom/toolroom/sandbox"
)

// Driver is a driver of a program. It returns the program's errors, isolation and limits
// unchanged.
type Driver struct {
	program  *Program
	name     string
	settings func(context.Context) (any, error)

	configuring chan struct{} // has room for the one request that sends settings

	mu   sync.Mutex
	on   *process // the process that has the settings
	sent []byte   // the settings
	far  *remote.Driver
}

// Driver returns the program's driver with a name. settings returns what the driver is sent,
// in JSON, before its first request and whenever it has changed; nil sends {}.
func (p *Program) Driver(name string, settings func(context.Context) (any, error)) *Driver {
	if settings == nil {
		settings = func(context.Context) (any, error) { return struct{}{}, nil }
	}
	d := &Driver{program: p, name: name, settings: settings, configuring: make(chan struct{}, 1)}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.drivers = append(p.drivers, d)
	return d
}

// connect returns the driver in the running program, with its present settings.
func (d *Driver) connect(ctx context.Context) (*remote.Driver, error) {
	settings, err := d.settings(ctx)
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(settings)
	if err != nil {
		return nil, err
	}
	p, err := d.program.ensureRunning(ctx)
	if err != nil {
		return nil, err
	}
	select {
	case d.configuring <- struct{}{}:
		defer func() { <-d.configuring }()
	case <-ctx.Done():
		return nil, unavailable("another request sends %s its settings, and has no answer: %w", p.name, context.Cause(ctx))
	}
	d.mu.Lock()
	on, sent, far := d.on, d.sent, d.far
	d.mu.Unlock()
	if on == p && bytes.Equal(sent, text) {
		return far, nil
	}
	if on != p {
		far = remote.NewLocal(remote.Local{Name: d.name, Dial: p.dial, Lost: p.explainLoss})
	}
	if err := far.Configure(ctx, text); err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.on, d.sent, d.far = p, text, far
	return far, nil
}

// used reports whether the driver has ever been used.
func (d *Driver) used() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.on != nil
}

// Name returns the driver's name.
func (d *Driver) Name() string { return d.name }

// Probe asks the program.
func (d *Driver) Probe(ctx context.Context) sandbox.Probe {
	far, err := d.connect(ctx)
	if err != nil {
		return remote.FailedProbe(err)
	}
	return far.Probe(ctx)
}

// Start starts a sandbox in the program.
func (d *Driver) Start(ctx context.Context, s sandbox.Spec) (sandbox.Sandbox, error) {
	far, err := d.connect(ctx)
	if err != nil {
		return nil, err
	}
	return far.Start(ctx, s)
}

// Clean lists and removes what processes that have ended have left behind.
func (d *Driver) Clean(ctx context.Context, dry bool) ([]sandbox.Leftover, error) {
	far, err := d.connect(ctx)
	if err != nil {
		return nil, err
	}
	return far.Clean(ctx, dry)
}

// Post sends a request to a path of the program that is not a driver's, and returns the body
// of the answer, which the caller closes. The error is what the program says, or why it did
// not answer.
func (p *Program) Post(ctx context.Context, path string, in any) (io.ReadCloser, error) {
	r, err := p.ensureRunning(ctx)
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(in)
	if err != nil {
		return nil, err
	}
	q, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://program"+path, bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	q.Header.Set("Content-Type", "application/json")
	answer, err := r.http.Do(q)
	if err != nil {
		return nil, r.explainLoss(err)
	}
	if answer.StatusCode != http.StatusOK {
		defer answer.Body.Close()
		var problem remote.Problem
		if err := json.NewDecoder(io.LimitReader(answer.Body, remote.MaxBody)).Decode(&problem); err != nil || problem.Error == nil {
			return nil, unavailable("%s answered %s", p.o.Name, answer.Status)
		}
		return nil, problem.Full()
	}
	return &body{answer.Body, r}, nil
}

// body is the body of an answer; its end before the end of the answer is explained.
type body struct {
	io.ReadCloser
	process *process
}

func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil && err != io.EOF {
		err = b.process.explainLoss(err)
	}
	return n, err
}
