package egress

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"syscall"
	"time"

	"github.com/toolroom/toolroom"
)

// dialTimeout bounds one connection, including all addresses of a name.
const dialTimeout = 30 * time.Second

// DialContext connects to host:port over TCP. It checks the address after the lookup and
// before the first packet, so the checked address is the one that is connected to. A
// refusal is a [toolroom.Error] with code denied.
func (g *Guard) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	host, portText, err := net.SplitHostPort(address)
	if err != nil || network != "tcp" && network != "tcp4" && network != "tcp6" {
		return nil, target{host: address}.refusal("", "only TCP connections to host:port are allowed")
	}
	t, err := g.parseTarget(host, parsePort(portText))
	if err != nil {
		return nil, err
	}
	if g.isLocal(t) {
		return g.local.Dial(ctx, t.port)
	}
	// A server that stops after it was permitted must not lead to this machine's own.
	here := *g
	here.local = nil
	dialer := net.Dialer{
		Timeout:  dialTimeout,
		Resolver: g.resolver,
		ControlContext: func(_ context.Context, _, resolved string, _ syscall.RawConn) error {
			to, err := netip.ParseAddrPort(resolved)
			if err != nil {
				return t.refusal("", "it does not resolve to an IP address")
			}
			return here.judgeAddr(t, to.Addr())
		},
	}
	return dialer.DialContext(ctx, network, address)
}

// transport checks the address of every request, including redirects, and dials through
// the guard.
type transport struct {
	guard *Guard
	base  *http.Transport
}

// Transport returns a round tripper with its own connections.
func (g *Guard) Transport() http.RoundTripper {
	base := &http.Transport{
		DialContext:            g.DialContext,
		ForceAttemptHTTP2:      true,
		TLSHandshakeTimeout:    10 * time.Second,
		IdleConnTimeout:        90 * time.Second,
		MaxIdleConnsPerHost:    64, // calls to an MCP server come in bursts
		MaxResponseHeaderBytes: 1 << 20,
	}
	if g.proxy != nil {
		base.Proxy = func(r *http.Request) (*url.URL, error) {
			if !g.proxied(r.URL) {
				return nil, nil
			}
			return g.proxy, nil
		}
	}
	return &transport{g, base}
}

// proxied reports whether a request goes through the proxy. A request to this machine does
// not, because it would reach the proxy's machine.
func (g *Guard) proxied(u *url.URL) bool {
	if g.proxy == nil {
		return false
	}
	t, _ := g.parseURLTarget(u)
	return t.class != Loopback
}

// RoundTrip sends one request if its address is allowed.
func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	to, err := t.guard.parseURLTarget(r.URL)
	if err == nil && t.guard.proxied(r.URL) {
		err = t.guard.judgeProxied(r.Context(), to)
	}
	if err != nil {
		if r.Body != nil {
			r.Body.Close()
		}
		return nil, err
	}
	response, err := t.base.RoundTrip(r)
	if err == nil && response.StatusCode != http.StatusSwitchingProtocols { // whose body is also written
		response.Body = &body{response.Body, r.Context()}
	}
	return response, err
}

// body is the body of a response. It never ends as if it were whole after the request's context
// has ended: a server or proxy that saw the end may have closed it early.
type body struct {
	io.ReadCloser
	ctx context.Context
}

// Read implements [io.Reader].
func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if errors.Is(err, io.EOF) && b.ctx.Err() != nil {
		err = context.Cause(b.ctx)
	}
	return n, err
}

// judgeProxied checks a name that the proxy will look up. If the name resolves here, its
// addresses are checked as for dialing. A name that only the proxy can resolve is treated
// as public, so that only entries for the name apply.
func (g *Guard) judgeProxied(ctx context.Context, t target) error {
	err := g.checkLookup(ctx, t)
	if err == nil || toolroom.CodeOf(err) == toolroom.CodeDenied {
		return err
	}
	t.class = Public
	return g.judge(t)
}

// CloseIdleConnections implements [http.Client.CloseIdleConnections].
func (t *transport) CloseIdleConnections() { t.base.CloseIdleConnections() }

// Client returns an HTTP client that checks every request.
func (g *Guard) Client() *http.Client { return &http.Client{Transport: g.Transport()} }
