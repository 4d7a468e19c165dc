package mcp

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"net/http"
	"net/url"
	"os/exec"
	"strings"
	"sync/atomic"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/oauth"
	"github.com/toolroom/toolroom/internal/proc"
	"github.com/toolroom/toolroom/mcp"
)

// stopGrace is the time in which a stdio server must end by itself.
const stopGrace = 2 * time.Second

// upstream is one connection to a server, with the server's process if it has one.
type upstream struct {
	session *mcp.Client
	process *proc.Process // nil over HTTP
	stderr  *proc.Tail
	lastUse atomic.Int64 // Unix nanoseconds
	busy    atomic.Int64 // number of requests in progress; negative if no more are accepted
	// givenUp is the reason why Toolroom ended the connection, or nil if it did not.
	givenUp atomic.Pointer[error]
}

// dial connects with the newest revision that the server speaks.
func (l *link) dial(ctx context.Context, older bool) (*upstream, error) {
	up, err := l.open(ctx, older)
	if err != nil && !older && up != nil && up.exitedWithError() {
		// Some older servers exit when they receive an unknown request.
		up, err = l.open(ctx, true)
	}
	if err != nil {
		return nil, up.withExitStatus(err)
	}
	return up, nil
}

// open starts the server and negotiates the protocol. It returns the upstream even if it fails,
// because the upstream holds the output of the process.
func (l *link) open(ctx context.Context, older bool) (*upstream, error) {
	up := &upstream{stderr: &proc.Tail{}}
	l.mu.Lock()
	if l.stderr != nil && l.stderr.String() != "" {
		l.earlierStderr = l.stderr
	}
	l.stderr = up.stderr
	l.mu.Unlock()
	s := l.s
	transport, err := l.transport(ctx, up)
	if err != nil {
		return up, err
	}
	up.session, err = mcp.Connect(ctx, transport, mcp.ClientOptions{
		Handler: mcp.ClientHandler{
			Notified: func(owner any, method string, params json.RawMessage) { s.handleNotification(l, owner, method, params) },
			Asked: func(ctx context.Context, owner any, q mcp.Question) (json.RawMessage, error) {
				return s.answerQuestion(ctx, l, owner, q)
			},
		},
		Name:         "toolroom",
		Version:      s.o.Version,
		Capabilities: json.RawMessage(cmp.Or(l.capabilities, sharedCapabilities)),
		Legacy:       older,
	})
	return up, err
}

func (l *link) transport(ctx context.Context, up *upstream) (mcp.Transport, error) {
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
		return mcp.HTTP(s.o.URL, &client), nil
	}
	env, err := s.o.Env(ctx)
	if err != nil {
		return nil, err
	}
	up.process, err = s.o.Start(ctx, proc.Spec{
		Command: s.o.Command, Args: s.o.Args, Env: env, Dir: s.o.Dir, Owner: s.o.Owner, Stderr: up.stderr,
	})
	if err != nil {
		return nil, err
	}
	return mcp.Stdio(mcp.Pipes{
		In:   mcp.NewLines(up.process.Stdout, up.stderr),
		Out:  up.process.Stdin,
		Stop: func() { up.process.Stop(stopGrace) },
	}), nil
}

// exitedWithError reports whether the process has exited by itself with an error. It is called
// after the process has ended.
func (up *upstream) exitedWithError() bool {
	if up.process == nil {
		return false
	}
	_, _, exited := proc.ExitOf(up.process.Err())
	return exited
}

// exitWait is the time in which a process must exit after it has closed its output.
const exitWait = 3 * time.Second

// waitForExit reports whether the process exits within exitWait.
func (up *upstream) waitForExit() bool {
	if up.process == nil {
		return false
	}
	select {
	case <-up.process.Done():
		return true
	case <-time.After(exitWait):
		return false
	}
}

// withExitStatus adds the exit status of the process and the end of its output to an error.
func (up *upstream) withExitStatus(err error) error {
	if up.process == nil {
		return err
	}
	end := up.process.Err()
	if _, how, exited := proc.ExitOf(end); exited {
		err = fmt.Errorf("it ended with %s", how)
	}
	if tail := lastLines(up.stderr); tail != "" {
		err = fmt.Errorf("%w; it wrote: %s", err, tail)
	}
	if refused := (*toolroom.Error)(nil); errors.As(end, &refused) && refused.Code == toolroom.CodeDenied {
		err = fmt.Errorf("%w; before that, Toolroom refused a connection: %w", err, refused)
	}
	return err
}

// remedy returns the hint for an error that persists until a person acts, or "" if trying again
// may help.
func remedy(err error) string {
	var status *mcp.StatusError
	var unknown x509.UnknownAuthorityError
	var refused *oauth.Refused
	var certificate *tls.CertificateVerificationError
	ours := (*toolroom.Error)(nil)
	switch {
	case errors.As(err, &ours) && ours.Code == toolroom.CodeSandboxUnavailable && ours.Hint != "":
		return ours.Hint
	case errors.Is(err, exec.ErrNotFound), errors.Is(err, fs.ErrNotExist):
		return "install the program, or give its full path"
	case errors.Is(err, fs.ErrPermission):
		return "make the program executable: chmod +x"
	case errors.As(err, &unknown), errors.As(err, &certificate):
		return "its certificate is not trusted: renew the certificate, or add its authority to this machine's trusted ones"
	case errors.As(err, &refused):
		return "ask its operator to grant the missing permission"
	case errors.As(err, &status) && status.Code == http.StatusUnauthorized:
		return "check its credentials in the config"
	case errors.As(err, &status) && (status.Code == http.StatusNotFound || status.Code == http.StatusMethodNotAllowed):
		return "check the URL: most servers answer at /mcp or /sse"
	}
	return ""
}

// close ends the session and the process. It is idempotent.
func (up *upstream) close() { up.session.Close() }

// idleTime returns the time since the last request, or zero during one.
func (up *upstream) idleTime() time.Duration {
	if up.busy.Load() > 0 {
		return 0
	}
	return time.Since(time.Unix(0, up.lastUse.Load()))
}

// retireIfIdle reports whether there was no request for the given time. If so, no request is sent
// any more, so that none is lost when the connection is dropped.
func (up *upstream) retireIfIdle(most time.Duration) bool {
	return up.idleTime() >= most && up.busy.CompareAndSwap(0, math.MinInt64/2)
}

// call makes a request and counts it as a use.
func (up *upstream) call(ctx context.Context, r *mcp.Request) (json.RawMessage, error) {
	defer func() {
		up.busy.Add(-1)
		up.lastUse.Store(time.Now().UnixNano())
	}()
	if up.busy.Add(1) < 0 {
		return nil, fmt.Errorf("%w: the connection was not used and has been ended", mcp.ErrNotSent)
	}
	return up.session.Call(ctx, r)
}

func (up *upstream) title(fallback string) string {
	server := up.session.Server()
	return cmp.Or(server.Title, server.Name, fallback)
}

// headers adds the configured headers to each request to the server. It reads them
// each time, so that secrets can rotate. It adds none after a redirect to another
// host.
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

// lastLines returns the last lines of a server's stderr, for error messages.
func lastLines(stderr *proc.Tail) string {
	const lines = 5
	all := strings.Split(strings.TrimSpace(strings.ToValidUTF8(stderr.String(), "")), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}
