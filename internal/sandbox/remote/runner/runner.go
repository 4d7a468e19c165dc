// Package runner serves sandboxes of this machine to others: the other side of
// package remote. What it starts for a client ends with the connection of that
// client, whatever becomes of it.
package runner

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"sync"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/sandbox/remote/lifeline"
	"github.com/toolroom/toolroom/internal/sandbox/remote/signed"
	"github.com/toolroom/toolroom/sandbox"
)

// Options of a runner. Driver, Guest and Keys are required.
type Options struct {
	Driver sandbox.Driver
	// Guest is the binary that runs programs, and GuestArgs make it that.
	Guest     string
	GuestArgs []string
	Keys      []signed.Key
	// Most is how many sandboxes there may be at a time (32), MostPerKey for the
	// holder of one secret (Most).
	Most, MostPerKey int
	// Grace is how long a sandbox lives without its client's stream (10 s).
	Grace time.Duration
	// Lifetime is how long a sandbox lives at all (1 h).
	Lifetime time.Duration
	// Silence is how long the network may carry nothing before a client counts
	// as gone (30 s).
	Silence time.Duration
	// TLS is nil for plain HTTP; see [TLS].
	TLS *tls.Config
	// Plain permits plain HTTP on an address that other machines reach.
	Plain bool
	// Log receives what is refused and ended, never a secret; nil discards it.
	Log *slog.Logger
	// Now is the clock by which requests are judged; nil is the system's.
	Now func() time.Time
}

// Runner serves sandboxes. Make one with [New], and Close it.
type Runner struct {
	o        Options
	verifier *signed.Verifier
	probe    probe
	ctx      context.Context
	cancel   context.CancelFunc
	work     sync.WaitGroup

	mu   sync.Mutex
	runs map[runID]*run
}

// New makes a runner, which takes orders through Handler.
func New(o Options) *Runner {
	o.Most = cmp.Or(o.Most, 32)
	o.MostPerKey = cmp.Or(o.MostPerKey, o.Most)
	o.Grace = cmp.Or(o.Grace, 10*time.Second)
	o.Lifetime = cmp.Or(o.Lifetime, time.Hour)
	o.Silence = cmp.Or(o.Silence, lifeline.Silence)
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	r := &Runner{o: o, verifier: signed.NewVerifier(o.Keys, o.Now), probe: probe{driver: o.Driver}, runs: map[runID]*run{}}
	r.ctx, r.cancel = context.WithCancel(context.Background())
	r.work.Go(r.tidy)
	return r
}

// Close ends every sandbox, and returns when nothing of them is left.
func (r *Runner) Close() error {
	r.cancel()
	var errs []error
	for _, run := range r.all() {
		errs = append(errs, run.kill())
	}
	r.work.Wait()
	return errors.Join(errs...)
}

// A client that sends or reads slowly holds nothing but its own connection, and
// that not for long.
const (
	headerTimeout = 5 * time.Second
	bodyTimeout   = 15 * time.Second
	answerTimeout = 90 * time.Second // longer than a start, see startTimeout
	idleTimeout   = 60 * time.Second
	maxHeader     = 16 << 10
)

// Serve serves until ctx ends, and ends every sandbox. started is told the
// address.
func Serve(ctx context.Context, listen string, o Options, started func(net.Addr)) (err error) {
	listener, err := lifeline.Listen(cmp.Or(o.Silence, lifeline.Silence)).Listen(ctx, "tcp", listen)
	if err != nil {
		return toolroom.Errorf(toolroom.CodeInternal, "the runner cannot listen on %s: %w", listen, err).WithHint("choose another address with --listen")
	}
	defer listener.Close()
	if o.TLS == nil && !o.Plain && !isLocal(listener.Addr()) {
		return toolroom.Errorf(toolroom.CodeInvalidArguments, "%s can be reached from other machines, and without TLS anyone on the way reads and changes what runs", listener.Addr()).
			WithHint("give --tls-cert and --tls-key; or --plain on a network that you trust")
	}
	r := New(o)
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

// TLS reads the certificate that a runner shows and, where clientCA is not
// empty, the certificates that its clients' must be signed by.
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
			return nil, fmt.Errorf("%s has no certificate in it", clientCA)
		}
		config.ClientAuth = tls.RequireAndVerifyClientCert
	}
	return config, nil
}
