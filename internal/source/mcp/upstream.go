package mcpsource

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"os/exec"
	"strings"
	"sync/atomic"
	"time"

	"github.com/toolroom/toolroom/internal/oauth"
	"github.com/toolroom/toolroom/internal/proc"
	"github.com/toolroom/toolroom/internal/source/mcp/wire"
)

// stopGrace is how long a server on stdio has to end by itself.
const stopGrace = 2 * time.Second

// upstream is one connection, and the process behind it.
type upstream struct {
	session *wire.Session
	process *proc.Process // nil over HTTP
	stderr  *proc.Tail
	lastUse atomic.Int64 // Unix nanoseconds
	busy    atomic.Int64
	doubted atomic.Bool
}

// dial connects, in the newest revision that the server speaks.
func (l *link) dial(ctx context.Context, older bool) (*upstream, error) {
	up, err := l.open(ctx, older)
	if err != nil && !older && up != nil && up.died() {
		// Some older servers end when they are asked what they do not know.
		up, err = l.open(ctx, true)
	}
	if err != nil {
		return nil, up.explain(err)
	}
	return up, nil
}

// open starts the server and agrees on the protocol. The upstream is there for
// its last words, also where that failed.
func (l *link) open(ctx context.Context, older bool) (*upstream, error) {
	up := &upstream{stderr: &proc.Tail{}}
	up.lastUse.Store(time.Now().UnixNano())
	s := l.s
	transport, err := l.transport(ctx, up)
	if err != nil {
		return up, err
	}
	up.session, err = wire.Open(ctx, transport, wire.Options{
		Handler: wire.Handler{
			Notified: func(owner any, method string, params json.RawMessage) { s.heard(l, owner, method, params) },
			Asked: func(ctx context.Context, owner any, q wire.Question) (json.RawMessage, error) {
				return s.asked(ctx, l, owner, q)
			},
		},
		Name:         "toolroom",
		Version:      s.o.Version,
		Capabilities: json.RawMessage(cmp.Or(l.can, forAll)),
		Legacy:       older,
	})
	return up, err
}

func (l *link) transport(ctx context.Context, up *upstream) (wire.Transport, error) {
	s := l.s
	if s.o.Command == "" {
		endpoint, err := url.Parse(s.o.URL)
		if err != nil {
			return nil, err
		}
		client := *s.client
		client.Transport = &headers{base: client.Transport, to: endpoint, header: s.o.Header}
		if l.auth != nil {
			client.Transport = l.auth.Transport(client.Transport)
		}
		return wire.HTTP(s.o.URL, &client), nil
	}
	env, err := s.o.Env(ctx)
	if err != nil {
		return nil, err
	}
	up.process, err = s.o.Start(proc.Spec{
		Command: s.o.Command, Args: s.o.Args, Env: env, Dir: s.o.Dir, Owner: s.o.Owner, Stderr: up.stderr,
	})
	if err != nil {
		return nil, err
	}
	return wire.Stdio(wire.Pipes{
		In:   wire.NewLines(up.process.Stdout, up.stderr),
		Out:  up.process.Stdin,
		Stop: func() { up.process.Stop(stopGrace) },
	}), nil
}

// died reports whether the process has ended by itself and in anger. It is
// asked after the process has ended.
func (up *upstream) died() bool {
	exit := (*exec.ExitError)(nil)
	return up.process != nil && errors.As(up.process.Err(), &exit) && exit.Exited()
}

// explain adds to an error how the process ended and what it wrote.
func (up *upstream) explain(err error) error {
	if up.process == nil {
		return err
	}
	if exit := (*exec.ExitError)(nil); errors.As(up.process.Err(), &exit) && exit.Exited() {
		err = fmt.Errorf("it ended with %s", exit.ProcessState)
	}
	if tail := lastLines(up.stderr); tail != "" {
		return fmt.Errorf("%w; it wrote: %s", err, tail)
	}
	return err
}

// hopeless is what to do about a server that cannot be reached before somebody
// has done something, empty for one that may come back by itself.
func hopeless(err error) string {
	var status *wire.StatusError
	var unknown x509.UnknownAuthorityError
	var refused *oauth.Refused
	var certificate *tls.CertificateVerificationError
	switch {
	case errors.Is(err, exec.ErrNotFound), errors.Is(err, fs.ErrNotExist):
		return "install the program, or give its full path"
	case errors.Is(err, fs.ErrPermission):
		return "make the program executable: chmod +x"
	case errors.As(err, &unknown), errors.As(err, &certificate):
		return "its certificate is not trusted here: have the certificate renewed, or its authority added to this machine's"
	case errors.As(err, &refused):
		return "have its operator grant what is missing"
	case errors.As(err, &status) && status.Code == http.StatusUnauthorized:
		return "check its credentials in the config"
	case errors.As(err, &status) && (status.Code == http.StatusNotFound || status.Code == http.StatusMethodNotAllowed):
		return "check the URL: most servers answer at /mcp or /sse"
	}
	return ""
}

// close ends the session and the process. It is idempotent.
func (up *upstream) close() { up.session.Close() }

// unused is how long no request has been under way.
func (up *upstream) unused() time.Duration {
	if up.busy.Load() > 0 {
		return 0
	}
	return time.Since(time.Unix(0, up.lastUse.Load()))
}

// call makes a request, which counts as a use.
func (up *upstream) call(ctx context.Context, r *wire.Request) (json.RawMessage, error) {
	up.busy.Add(1)
	defer func() {
		up.busy.Add(-1)
		up.lastUse.Store(time.Now().UnixNano())
	}()
	return up.session.Call(ctx, r)
}

func (up *upstream) title(fallback string) string {
	server := up.session.Server()
	return cmp.Or(server.Title, server.Name, fallback)
}

// headers adds the configured headers to each request to the server, read anew
// each time so that secrets can rotate. A redirect to another host does not get
// them.
type headers struct {
	base   http.RoundTripper
	to     *url.URL
	header func(context.Context) (http.Header, error)
}

func (h *headers) RoundTrip(req *http.Request) (*http.Response, error) {
	if h.header == nil || req.URL.Scheme != h.to.Scheme || req.URL.Host != h.to.Host {
		return h.base.RoundTrip(req)
	}
	extra, err := h.header(req.Context())
	if err != nil {
		return nil, err
	}
	req = req.Clone(req.Context())
	for name, values := range extra {
		req.Header[http.CanonicalHeaderKey(strings.TrimSpace(name))] = values
	}
	return h.base.RoundTrip(req)
}
