package remote

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/toolroom/toolroom"
)

// client sends requests to one runner.
type client struct {
	o     Options
	local *Local // nil for a runner on another machine
	base  string
	http  func() (*http.Client, error) // made on first use, because it reads files
}

func newClient(o Options) *client {
	c := &client{o: o, base: strings.TrimSuffix(o.URL, "/")}
	c.http = sync.OnceValues(c.open)
	return c
}

func (c *client) open() (*http.Client, error) {
	u, err := url.Parse(c.o.URL)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, unavailable(false, "%q is not the URL of a runner", c.o.URL).WithHint("write code: {runtimes: {remote: {url: \"https://HOST:7071\"}}}")
	}
	if u.Scheme == "http" && !c.o.Plain && !isLoopbackHost(u.Hostname()) {
		return nil, unavailable(false, "the runner at %s is on another machine, and http:// lets anyone on the network read and change what runs", u.Host).
			WithHint("start the runner with --tls-cert and --tls-key and use https://, or write plain: true on a network that you trust")
	}
	config, err := c.tls()
	if err != nil {
		return nil, unavailable(false, "cannot read the certificates for the runner: %w", err).WithHint("check ca, cert and key of code.runtimes.remote")
	}
	dialer := newDialer(cmp.Or(c.o.Silence, Silence))
	dialer.Timeout = 5 * time.Second
	// Only HTTP/1.1 can be upgraded to the bridge's byte stream.
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	return &http.Client{
		Transport: &http.Transport{
			DialContext: dialer.DialContext, TLSClientConfig: config, TLSHandshakeTimeout: 5 * time.Second,
			Protocols: protocols, MaxIdleConnsPerHost: 8, IdleConnTimeout: 30 * time.Second, MaxResponseHeaderBytes: 64 << 10,
		},
		// A signature is valid for one path only.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}, nil
}

func isLoopbackHost(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}

func (c *client) tls() (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS13, ServerName: c.o.ServerName, ClientSessionCache: tls.NewLRUClientSessionCache(0)}
	if c.o.CA != "" {
		pem, err := os.ReadFile(c.o.CA)
		if err != nil {
			return nil, err
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("%s contains no certificate", c.o.CA)
		}
	}
	if c.o.Cert != "" || c.o.Key != "" {
		pair, err := tls.LoadX509KeyPair(c.o.Cert, c.o.Key)
		if err != nil {
			return nil, err
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}

// Requests are repeated after a pause that doubles, with a random part.
const (
	attempts   = 5
	firstPause = 100 * time.Millisecond
)

// do sends a request and decodes the answer into out. If the connection or the runner
// fails (5xx), do sends the request again with a new signature, until ctx is done. It does
// not repeat a request that the runner refuses.
func (c *client) do(ctx context.Context, method, path string, in, out any) error {
	var body []byte
	if in != nil {
		var err error
		if body, err = json.Marshal(in); err != nil {
			return err
		}
	}
	return c.retry(ctx, func() error {
		answer, err := c.send(ctx, method, path, body, "")
		if err != nil {
			return err
		}
		defer answer.Body.Close()
		data, err := io.ReadAll(io.LimitReader(answer.Body, MaxBody+1))
		switch {
		case err != nil:
			return c.explainLoss(err)
		case len(data) > MaxBody:
			return unavailable(false, "the runner at %s answered with more than %d bytes", c.base, MaxBody)
		case answer.StatusCode == http.StatusNoContent:
			return nil
		case answer.StatusCode != http.StatusOK:
			return c.responseError(answer, data)
		}
		if err := json.Unmarshal(data, out); err != nil {
			return unavailable(false, "%s is not a runner: %w", c.base, err).WithHint("check url of code.runtimes.remote")
		}
		return nil
	})
}

// retry repeats try if it fails for a temporary reason. A local program's driver has
// tried already.
func (c *client) retry(ctx context.Context, try func() error) error {
	for attempt := 1; ; attempt++ {
		err := try()
		var passing *temporaryError
		if !errors.As(err, &passing) {
			return err
		}
		pause := firstPause << (attempt - 1)
		pause = pause/2 + rand.N(pause)
		deadline, ok := ctx.Deadline()
		if c.local != nil || attempt == attempts || ctx.Err() != nil || ok && time.Until(deadline) < pause {
			return passing.error
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return passing.error
		}
	}
}

// temporaryError is an error after which the request is repeated.
type temporaryError struct{ error }

func (e *temporaryError) Unwrap() error { return e.error }

// send sends a request once.
func (c *client) send(ctx context.Context, method, path string, body []byte, upgrade string) (*http.Response, error) {
	h, err := c.http()
	if err != nil {
		return nil, err
	}
	r, err := http.NewRequestWithContext(ctx, method, c.base+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	if upgrade != "" {
		r.Header.Set("Connection", "Upgrade")
		r.Header.Set("Upgrade", upgrade)
	}
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	if c.local == nil {
		secret, err := c.o.Secret(ctx)
		if err != nil {
			return nil, unavailable(false, "the runner's secret: %w", err).WithCLIHint("use toolroom secret set, and check secret of code.runtimes.remote")
		}
		Sign(r, body, []byte(secret), time.Now())
	}
	answer, err := h.Do(r)
	if err != nil {
		return nil, c.explainLoss(err)
	}
	return answer, nil
}

// explainLoss explains a connection error.
func (c *client) explainLoss(err error) error {
	if c.local != nil {
		return c.local.Lost(err)
	}
	var badCert *tls.CertificateVerificationError
	var op *net.OpError
	if errors.As(err, &badCert) || errors.As(err, &op) && op.Op == "remote error" { // a TLS alert
		return unavailable(false, "the runner at %s and this client do not trust each other's certificates: %w", c.base, err).
			WithHint("check ca, cert and key of code.runtimes.remote, and the runner's --tls-cert and --client-ca")
	}
	e := unavailable(true, "the runner at %s cannot be reached: %w", c.base, err)
	if _, ok := errors.AsType[*net.DNSError](err); ok {
		return &temporaryError{e.WithHint("its name cannot be resolved: check url of code.runtimes.remote")}
	}
	return &temporaryError{e.WithCLIHint("start it there with toolroom runner serve, and check that no firewall blocks this machine")}
}

// responseError explains an error answer.
func (c *client) responseError(answer *http.Response, data []byte) error {
	var p Problem
	if json.Unmarshal(data, &p) != nil || p.Error == nil {
		p.Error = unavailable(true, "it answered %s", answer.Status).WithHint("check that url of code.runtimes.remote leads to a runner, and check any proxy in between")
	}
	if c.local != nil {
		return p.Full()
	}
	e := *p.Error
	e.Message = fmt.Sprintf("the runner at %s: %s", c.base, e.Message)
	switch e.Code {
	case toolroom.CodeLimitNotEnforceable, toolroom.CodeInvalidArguments, toolroom.CodeNotFound:
	default: // the runner refuses this machine; that is not an error of the caller
		e.Code = toolroom.CodeSandboxUnavailable
	}
	switch p.Reason {
	case ReasonWrong, ReasonUnsigned:
		e.Hint = "the secret of code.runtimes.remote is not in the runner's --secret-file"
	case ReasonSkewed:
		side := "ahead of"
		if p.SkewMS < 0 {
			side = "behind"
		}
		skew := (time.Duration(p.SkewMS) * time.Millisecond).Abs().Round(time.Second)
		e.Message = fmt.Sprintf("the clock of this machine is %s %s that of the runner at %s, and %s is allowed", skew, side, c.base, SignatureWindow)
		e.Hint = "the secret is right; set the clocks of both machines by NTP"
	}
	if answer.StatusCode >= 500 {
		return &temporaryError{&e}
	}
	return &e
}

// upgrade opens the stream of a sandbox. ctx bounds opening it only.
func (c *client) upgrade(ctx context.Context, path string) (io.ReadWriteCloser, error) {
	var stream io.ReadWriteCloser
	lasting, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, cancel)
	err := c.retry(ctx, func() error {
		answer, err := c.send(lasting, http.MethodGet, path, nil, Protocol)
		if err != nil {
			return err
		}
		conn, ok := answer.Body.(io.ReadWriteCloser)
		if answer.StatusCode == http.StatusSwitchingProtocols && ok {
			stream = conn
			return nil
		}
		defer answer.Body.Close()
		data, err := io.ReadAll(io.LimitReader(answer.Body, MaxBody))
		if err != nil {
			return c.explainLoss(err)
		}
		return c.responseError(answer, data)
	})
	if !stop() && err == nil {
		stream.Close()
		return nil, unavailable(true, "the runner at %s: %w", c.base, context.Cause(ctx))
	}
	if err != nil {
		cancel()
	}
	return stream, err
}

func unavailable(retryable bool, format string, args ...any) *toolroom.Error {
	e := toolroom.Errorf(toolroom.CodeSandboxUnavailable, format, args...)
	e.Retryable = retryable
	return e
}

// isUnknown reports whether the runner does not know the sandbox.
func isUnknown(err error) bool {
	return errors.Is(err, &toolroom.Error{Code: toolroom.CodeNotFound})
}

// Silence is the default time without packets after which a connection ends.
const Silence = 30 * time.Second

// newDialer returns a dialer whose connections end after about silence.
func newDialer(silence time.Duration) *net.Dialer {
	return &net.Dialer{KeepAliveConfig: keepAlive(silence), Control: socketControl(silence)}
}

// Listen returns a listener whose connections end after about silence.
func Listen(silence time.Duration) *net.ListenConfig {
	return &net.ListenConfig{KeepAliveConfig: keepAlive(silence), Control: socketControl(silence)}
}

// keepAlive configures probes on idle connections.
func keepAlive(silence time.Duration) net.KeepAliveConfig {
	step := max(silence/4, time.Second)
	return net.KeepAliveConfig{Enable: true, Idle: step, Interval: step, Count: 3}
}
