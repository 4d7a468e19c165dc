package egress

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"syscall"
	"time"

	"github.com/toolroom/toolroom"
)

// dialTimeout bounds one connection, all addresses of a name together.
const dialTimeout = 30 * time.Second

// DialContext connects to host:port over TCP. The address is judged after the
// lookup and before the first packet: what was judged is what is connected to.
// A refusal is a [toolroom.Error] with code denied.
func (g *Guard) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	host, portText, err := net.SplitHostPort(address)
	if err != nil || network != "tcp" && network != "tcp4" && network != "tcp6" {
		return nil, target{host: address}.refusal("", "connections are made over TCP to host:port only")
	}
	t, err := g.read(host, parsePort(portText))
	if err != nil {
		return nil, err
	}
	dialer := net.Dialer{
		Timeout:  dialTimeout,
		Resolver: g.resolver,
		ControlContext: func(_ context.Context, _, resolved string, _ syscall.RawConn) error {
			to, err := netip.ParseAddrPort(resolved)
			if err != nil {
				return t.refusal("", "it leads to something that is no IP address")
			}
			return g.judgeAddr(t, to.Addr())
		},
	}
	return dialer.DialContext(ctx, network, address)
}

// transport judges the address of every request, those that follow a redirect
// included, and dials through the guard.
type transport struct {
	guard *Guard
	base  *http.Transport
}

// Transport gives a round tripper with connections of its own.
func (g *Guard) Transport() http.RoundTripper {
	base := &http.Transport{
		DialContext:            g.DialContext,
		ForceAttemptHTTP2:      true,
		TLSHandshakeTimeout:    10 * time.Second,
		IdleConnTimeout:        90 * time.Second,
		MaxIdleConnsPerHost:    64, // calls of one MCP server come in bursts
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

// proxied reports whether a request goes through the proxy: one to this machine
// would reach the proxy's.
func (g *Guard) proxied(u *url.URL) bool {
	if g.proxy == nil {
		return false
	}
	t, _ := g.readURL(u)
	return t.class != Loopback
}

// RoundTrip sends one request.
func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	to, err := t.guard.readURL(r.URL)
	if err == nil && !to.addr.IsValid() && t.guard.proxied(r.URL) {
		err = t.guard.judgeProxied(r.Context(), to)
	}
	if err != nil {
		if r.Body != nil {
			r.Body.Close()
		}
		return nil, err
	}
	return t.base.RoundTrip(r)
}

// judgeProxied judges a name that the proxy will look up. What our own lookup
// gives is judged as for dialling; a name that only the proxy knows is judged
// as a public one, by its entries alone.
func (g *Guard) judgeProxied(ctx context.Context, t target) error {
	err := g.checkLookup(ctx, t)
	if err == nil || toolroom.CodeOf(err) == toolroom.CodeDenied {
		return err
	}
	t.class = Public
	return g.judge(t)
}

// CloseIdleConnections is what [http.Client.CloseIdleConnections] calls.
func (t *transport) CloseIdleConnections() { t.base.CloseIdleConnections() }

// Client gives an HTTP client whose every request is judged.
func (g *Guard) Client() *http.Client { return &http.Client{Transport: g.Transport()} }
