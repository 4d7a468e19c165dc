package remote

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/sandbox"
)

// RunnerOptions configures a runner. Driver, Guest and Keys are required.
type RunnerOptions struct {
	Driver sandbox.Driver
	// Local serves a program on this machine over a Unix socket, which lets nobody else in:
	// requests are not signed, orders name their guest, and neither the number of sandboxes
	// nor their lifetime is limited. Keys, Guest, TLS and Plain are not used.
	Local bool
	// Guest is the guest binary, and GuestArgs make it run as the guest.
	Guest     string
	GuestArgs []string
	Keys      []SigningKey
	// Most is the maximum number of sandboxes at a time (32), and MostPerKey that of one
	// client (Most).
	Most, MostPerKey int
	// Grace is the time that a sandbox may live without its client's stream (10 s).
	Grace time.Duration
	// Lifetime is the maximum lifetime of a sandbox (1 h).
	Lifetime time.Duration
	// Silence is the time without packets after which a client counts as gone (30 s).
	Silence time.Duration
	// TLS is the TLS configuration; nil means plain HTTP. See [TLS].
	TLS *tls.Config
	// Plain permits plain HTTP on an address that other machines can reach.
	Plain bool
	// Log receives refused requests and ended sandboxes, never a secret; nil discards it.
	Log *slog.Logger
	// Now returns the time for verifying requests; nil means the system's clock.
	Now func() time.Time
}

// Runner serves sandboxes. Make one with [NewRunner], and Close it.
type Runner struct {
	o        RunnerOptions
	verifier *Verifier
	probe    probe
	ctx      context.Context
	cancel   context.CancelFunc
	work     sync.WaitGroup

	mu      sync.Mutex
	runs    map[runID]*run
	driver  sandbox.Driver
	retired []sandbox.Driver // former drivers that are not closed yet
}

// localLifetime is the maximum lifetime of a sandbox for a program on this machine.
const localLifetime = 365 * 24 * time.Hour

// SetDriver sets the driver of the sandboxes that are started from now on. The one before
// is closed once its last sandbox has ended.
func (r *Runner) SetDriver(d sandbox.Driver) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.driver != nil {
		r.retired = append(r.retired, r.driver)
	}
	r.driver = d
}

// closeRetired closes the former drivers that have no sandbox.
func (r *Runner) closeRetired() {
	r.mu.Lock()
	used := map[sandbox.Driver]bool{}
	for _, run := range r.runs {
		if !run.removed() {
			used[run.driver] = true
		}
	}
	var idle []sandbox.Driver
	r.retired = slices.DeleteFunc(r.retired, func(d sandbox.Driver) bool {
		if !used[d] {
			idle = append(idle, d)
		}
		return !used[d]
	})
	r.mu.Unlock()
	for _, d := range idle {
		if c, ok := d.(io.Closer); ok {
			if err := c.Close(); err != nil {
				r.o.Log.Warn("a former driver could not be closed", "driver", d.Name(), "error", err)
			}
		}
	}
}

func (r *Runner) currentDriver() sandbox.Driver {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.driver
}

// NewRunner returns a runner, which accepts orders through Handler.
func NewRunner(o RunnerOptions) *Runner {
	o.Most = cmp.Or(o.Most, 32)
	if o.Local {
		o.Most, o.Lifetime = maxRemembered, localLifetime
	}
	o.MostPerKey = cmp.Or(o.MostPerKey, o.Most)
	o.Grace = cmp.Or(o.Grace, 10*time.Second)
	o.Lifetime = cmp.Or(o.Lifetime, time.Hour)
	o.Silence = cmp.Or(o.Silence, Silence)
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	r := &Runner{o: o, driver: o.Driver, verifier: NewVerifier(o.Keys, o.Now), runs: map[runID]*run{}}
	r.ctx, r.cancel = context.WithCancel(context.Background())
	r.probe = probe{driver: o.Driver, ctx: r.ctx}
	r.work.Go(r.tidy)
	return r
}

// Close ends every sandbox, and returns when all have been removed.
func (r *Runner) Close() error {
	r.cancel()
	all := r.all()
	errs := make([]error, len(all))
	for i, run := range all {
		r.work.Go(func() { errs[i] = run.kill() })
	}
	r.work.Wait()
	r.closeRetired()
	return errors.Join(errs...)
}

// Time-outs of slow clients. A slow client occupies only its own connection, and not for
// long.
const (
	headerTimeout = 5 * time.Second
	bodyTimeout   = 15 * time.Second
	answerTimeout = 90 * time.Second // longer than a start, see startTimeout
	idleTimeout   = 60 * time.Second
	maxHeader     = 16 << 10
)

// Serve serves until ctx is done, then ends every sandbox. It calls started with its
// address.
func Serve(ctx context.Context, listen string, o RunnerOptions, started func(net.Addr)) (err error) {
	listener, err := Listen(cmp.Or(o.Silence, Silence)).Listen(ctx, "tcp", listen)
	if err != nil {
		return toolroom.Errorf(toolroom.CodeInternal, "cannot listen on %s: %w", listen, err).WithHint("choose another address with --listen")
	}
	defer listener.Close()
	if o.TLS == nil && !o.Plain && !isLocal(listener.Addr()) {
		return toolroom.Errorf(toolroom.CodeInvalidArguments, "%s can be reached from other machines, and without TLS anyone on the network can read and change what runs", listener.Addr()).
			WithHint("use --tls-cert and --tls-key; or --plain on a network that you trust")
	}
	r := NewRunner(o)
	defer func() { err = errors.Join(err, r.Close()) }()
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true) // HTTP/2 cannot be upgraded
	server := &http.Server{
		Handler: r.Handler(), ReadHeaderTimeout: headerTimeout, ReadTimeout: bodyTimeout, WriteTimeout: answerTimeout,
		IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeader, Protocols: protocols,
		ErrorLog: slog.NewLogLogger(r.o.Log.Handler(), slog.LevelDebug),
	}
	if o.TLS != nil {
		listener = tls.NewListener(listener, o.TLS)
	}
	started(listener.Addr())
	stop := context.AfterFunc(ctx, func() { server.Close() })
	defer stop()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

func isLocal(a net.Addr) bool {
	at, err := netip.ParseAddrPort(a.String())
	return err == nil && at.Addr().IsLoopback()
}

// TLS reads the runner's certificate and, if clientCA is not empty, the certificates that
// must have signed those of clients.
func TLS(cert, key, clientCA string) (*tls.Config, error) {
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		return nil, fmt.Errorf("read the certificate: %w", err)
	}
	config := &tls.Config{MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{pair}, NextProtos: []string{"http/1.1"}}
	if clientCA != "" {
		pem, err := os.ReadFile(clientCA)
		if err != nil {
			return nil, err
		}
		config.ClientCAs = x509.NewCertPool()
		if !config.ClientCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("%s contains no certificate", clientCA)
		}
		config.ClientAuth = tls.RequireAndVerifyClientCert
	}
	return config, nil
}

// probe caches the driver's probe: for good if the driver is available, otherwise for
// probeAgain.
type probe struct {
	driver sandbox.Driver
	ctx    context.Context // ends a probe

	mu    sync.Mutex
	last  sandbox.Probe
	taken time.Time
}

const (
	runnerProbeTimeout = 20 * time.Second
	probeAgain         = 15 * time.Second
)

func (p *probe) get() sandbox.Probe {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.last.State == sandbox.Available || !p.taken.IsZero() && time.Since(p.taken) < probeAgain {
		return p.last
	}
	ctx, done := context.WithTimeout(p.ctx, runnerProbeTimeout)
	defer done()
	p.last, p.taken = p.driver.Probe(ctx), time.Now()
	return p.last
}
