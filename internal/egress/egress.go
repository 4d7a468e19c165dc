// Package egress controls which hosts Toolroom's own connections reach. Sources and
// sandboxes make every connection through a [Guard]. The guard accepts addresses in one
// plain form only, and checks the IP address when it dials, so that every redirect, and a
// name that resolves differently the second time, is checked again. Begin with [New].
package egress

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/toolroom/toolroom"
)

// Policy defines what may be reached. The zero Policy permits public addresses only. An
// entry is a host or *.domain, either with an optional :port, an address, a block such as
// 10.0.0.0/8, or a class such as loopback or private.
type Policy struct {
	// Closed permits only what Allow lists.
	Closed bool
	// Allow permits more. A host name permits its public, private, shared and loopback
	// addresses; all others need an entry of their own.
	Allow []string
	// Deny refuses what it lists, even if Allow permits it.
	Deny []string
	// Proxy is the URL of a proxy (http, https or socks5) for all targets except loopback;
	// empty means none. Proxies in the environment are never used.
	Proxy string
	// Resolver looks up names; nil means the system's resolver.
	Resolver *net.Resolver
}

// Guard checks targets and dials. It is immutable and safe for concurrent use. The zero
// Guard has the zero Policy.
type Guard struct {
	closed      bool
	allow, deny []rule
	// own are hosts that the operator has configured as the address of a service. They are
	// compared literally, in whatever form they are written.
	own    []ownHost
	within []rule // unless nil, one of them must match
	local  Local  // may be nil
	// named refuses addresses that stand for themselves, because deny has names, which
	// these would get around.
	named    bool
	proxy    *url.URL
	resolver *net.Resolver
}

type ownHost struct {
	host string
	addr netip.Addr
	port uint16
}

// CheckEntry returns an error if text is not a valid entry of Policy.Allow or Policy.Deny.
func CheckEntry(text string) error {
	_, err := parseRule(text)
	return err
}

// CheckProxy returns an error if text is not a valid Policy.Proxy. It must not be empty.
func CheckProxy(text string) error {
	_, err := parseProxy(text)
	return err
}

// New returns a guard. The error names the first invalid entry.
func New(p Policy) (*Guard, error) {
	g := &Guard{closed: p.Closed, resolver: p.Resolver}
	var err error
	if g.allow, err = parseRules(p.Allow); err != nil {
		return nil, fmt.Errorf("allow%w", err)
	}
	if g.deny, err = parseRules(p.Deny); err != nil {
		return nil, fmt.Errorf("deny%w", err)
	}
	if p.Proxy == "" {
		return g, nil
	}
	if g.proxy, err = parseProxy(p.Proxy); err != nil {
		return nil, fmt.Errorf("proxy: %w", err)
	}
	return g.WithOwn(g.proxy), nil
}

func parseProxy(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || !slices.Contains([]string{"http", "https", "socks5"}, u.Scheme) {
		return nil, errors.New("not the URL of a proxy; write http://host:port, https://… or socks5://…")
	}
	return u, nil
}

// WithOwn returns a guard that also permits the hosts and ports of services that the
// operator has configured. Deny still takes precedence. A nil g is the zero Guard.
func (g *Guard) WithOwn(services ...*url.URL) *Guard {
	if g == nil {
		g = &Guard{}
	}
	more := *g
	more.own = slices.Clone(g.own)
	for _, u := range services {
		if u == nil || u.Host == "" {
			continue
		}
		o := ownHost{host: strings.ToLower(u.Hostname())}
		o.addr, _ = netip.ParseAddr(o.host)
		ports := []uint16{portOf(u)}
		if u.Port() == "" && u.Scheme == "http" {
			ports = []uint16{80, 443} // a service may redirect from http to https, but not back
		}
		for _, o.port = range ports {
			more.own = append(more.own, o)
		}
	}
	return &more
}

// Local are servers that take the place of this machine's loopback.
type Local interface {
	// Serves reports whether there is a server at a port.
	Serves(port uint16) bool
	// Dial connects to it.
	Dial(ctx context.Context, port uint16) (net.Conn, error)
}

// WithLocal returns a guard that also permits the servers of local, and reaches them in
// place of this machine's own at localhost, 127.0.0.1 and ::1, but not at other names,
// whatever DNS says. Deny still takes precedence. A nil g is the zero Guard.
func (g *Guard) WithLocal(local Local) *Guard {
	if g == nil {
		g = &Guard{}
	}
	more := *g
	more.local = local
	return &more
}

// isLocal reports whether a target is a server of WithLocal.
func (g *Guard) isLocal(t target) bool { return g.mayBeLocal(t) && g.local.Serves(t.port) }

// mayBeLocal reports whether servers of WithLocal are reached at the host of a target.
func (g *Guard) mayBeLocal(t target) bool {
	return g.local != nil && (t.name == "localhost" || t.name == "" && (t.addr == ipv4Loopback || t.addr == netip.IPv6Loopback()))
}

// IsLocal reports whether a URL names a server of WithLocal.
func (g *Guard) IsLocal(u *url.URL) bool {
	t := target{host: u.Hostname(), port: portOf(u)}
	t.name, t.addr, _ = parseHost(t.host) // a form that is refused has no name, and is not plain loopback
	return g.isLocal(t)
}

var ipv4Loopback = netip.AddrFrom4([4]byte{127, 0, 0, 1})

// Within returns a guard that permits what both g and entries permit. A nil g is the zero
// Guard. The error names the first invalid entry.
func (g *Guard) Within(entries []string) (*Guard, error) {
	if g == nil {
		g = &Guard{}
	}
	narrow := *g
	rules, err := parseRules(entries)
	if err != nil {
		return nil, err
	}
	narrow.within = append([]rule{}, rules...)
	return &narrow, nil
}

// Denying returns a guard that also refuses entries. If one of them is a name, it refuses
// every address that is not given by name, except those of WithOwn. A nil g is the zero
// Guard. The error names the first invalid entry.
func (g *Guard) Denying(entries []string) (*Guard, error) {
	if g == nil {
		g = &Guard{}
	}
	narrow := *g
	rules, err := parseRules(entries)
	if err != nil {
		return nil, err
	}
	narrow.deny = slices.Concat(g.deny, rules)
	narrow.named = g.named || slices.ContainsFunc(rules, func(r rule) bool { return r.name != "" })
	return &narrow, nil
}

// outside reports whether the list of Within, if there is one, excludes t. Before a name
// has been looked up, entries for addresses may still match it.
func (g *Guard) outside(t target) bool {
	return g.within != nil && !slices.ContainsFunc(g.within, func(r rule) bool {
		return r.matches(t) || t.class == "" && r.name == "" && (r.port == 0 || r.port == t.port)
	})
}

func (t target) notListedError() error {
	return t.refusal("", "it is not in the program's list of hosts").
		WithHint("add %q to its list of hosts: sandbox.hosts of a source, --egress of a program", net.JoinHostPort(strings.ToLower(t.host), strconv.Itoa(int(t.port))))
}

func portText(u *url.URL) string { return strconv.Itoa(int(portOf(u))) }

func portOf(u *url.URL) uint16 {
	switch port := u.Port(); {
	case port != "":
		return parsePort(port)
	case u.Scheme == "http":
		return 80
	case u.Scheme == "socks5":
		return 1080
	default:
		return 443
	}
}

// parsePort returns zero, which is refused, if text is not a port.
func parsePort(text string) uint16 {
	n, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		return 0
	}
	return uint16(n)
}

// target is the destination of a request.
type target struct {
	host  string // as it was written
	name  string // empty for an address
	addr  netip.Addr
	port  uint16
	class Class // empty while the address is not known
}

// parseTarget parses a host and port, and checks everything that is known before a lookup.
func (g *Guard) parseTarget(host string, port uint16) (target, error) {
	t := target{host: host, port: port}
	var reason error
	t.name, t.addr, reason = parseHost(host)
	if t.addr.IsValid() {
		t.class = Classify(t.addr)
	} else {
		t.class = classOfName(t.name)
	}
	if port == 0 {
		return t, t.refusal("", "its port is not a number from 1 to 65535")
	}
	if reason != nil {
		if g.isOwn(t) {
			return t, nil // checked when it is dialed
		}
		return t, t.refusal("", reason.Error())
	}
	if g.named && t.addr.IsValid() && !g.isOwn(t) {
		return t, t.refusal("", "a rule forbids hosts by name, so that an address must be given by its name")
	}
	if t.class == "" {
		return t, g.judgeName(t)
	}
	return t, g.judge(t)
}

func (g *Guard) isOwn(t target) bool {
	return slices.ContainsFunc(g.own, func(o ownHost) bool {
		return o.port == t.port && o.host == strings.ToLower(t.host)
	})
}

// judgeName refuses names that are denied. If egress is closed, it also refuses names that
// no entry can allow, because looking them up would reveal them to their DNS server. All
// other names are checked at dial.
func (g *Guard) judgeName(t target) error {
	if g.outside(t) {
		return t.notListedError()
	}
	for _, r := range g.deny {
		if r.matches(t) {
			return t.deniedError(r)
		}
	}
	if g.closed && !g.isOwn(t) && !slices.ContainsFunc(g.allow, func(r rule) bool { return r.name == "" || r.matches(t) }) {
		return t.refusal(t.allowEntry(), "egress is closed and no entry allows it")
	}
	return nil
}

// judge checks a target whose address or class is known.
func (g *Guard) judge(t target) error {
	if g.outside(t) {
		return t.notListedError()
	}
	for _, r := range g.deny {
		if r.refuses(t) {
			return t.deniedError(r)
		}
	}
	if g.isLocal(t) {
		return nil
	}
	for _, r := range g.allow {
		if r.matches(t) && (r.name == "" || coveredByName(t.class)) {
			return nil
		}
	}
	for _, o := range g.own {
		switch {
		case o.port != t.port || o.host != strings.ToLower(t.host):
		case o.addr.IsValid(), coveredByName(t.class):
			return nil
		}
	}
	switch {
	case g.mayBeLocal(t):
		e := t.refusal(t.allowEntry(), fmt.Sprintf("no process of yours listens on port %d, and this machine's own servers are refused by default", t.port))
		return e.WithHint("if you have just started it, wait until process:output shows that it listens, and try again; for a server of this machine, %s", e.Hint)
	case t.class != Public:
		return t.refusal(t.allowEntry(), t.describe()+", which is refused by default")
	case g.closed:
		return t.refusal(t.allowEntry(), "egress is closed and no entry allows it")
	default:
		return nil
	}
}

// describe describes the target's class, and its address if a name was given.
func (t target) describe() string {
	switch {
	case t.name != "" && t.addr.IsValid():
		return fmt.Sprintf("it resolves to %s, a %s address", t.addr, t.class)
	default:
		return fmt.Sprintf("it is a %s address", t.class)
	}
}

// allowEntry returns the narrowest entry that would permit the target.
func (t target) allowEntry() string {
	switch {
	case t.addr.IsValid() && !coveredByName(t.class):
		return net.JoinHostPort(t.addr.String(), strconv.Itoa(int(t.port)))
	default:
		return net.JoinHostPort(strings.ToLower(t.host), strconv.Itoa(int(t.port)))
	}
}

func (t target) deniedError(r rule) error {
	e := toolroom.Errorf(toolroom.CodeDenied, "%s may not be reached: egress.deny contains %q", t.host, r.text)
	e.Details = t.details()
	return e.WithHint("egress.deny takes precedence over egress.allow; remove the entry from toolroom.yaml to reach %s", t.host)
}

func (t target) refusal(entry, reason string) *toolroom.Error {
	e := toolroom.Errorf(toolroom.CodeDenied, "%q may not be reached: %s", t.host, reason)
	e.Details = t.details()
	if entry == "" {
		return e.WithHint("write the host as a plain name or address")
	}
	if t.class == Metadata {
		return e.WithHint("metadata services give out the credentials of this machine, which no tool needs; docs/security.md has the rule for those who do want it")
	}
	e.Details["allow"] = entry
	return e.WithHint("to allow it, write in toolroom.yaml: egress: {allow: [%q]}", entry)
}

func (t target) details() map[string]any {
	d := map[string]any{"host": t.host}
	if t.class != "" {
		d["class"] = string(t.class)
	}
	if t.addr.IsValid() {
		d["address"] = t.addr.String()
	}
	return d
}

// parseURLTarget checks the form of a URL.
func (g *Guard) parseURLTarget(u *url.URL) (target, error) {
	t := target{host: u.Hostname(), port: portOf(u)}
	switch {
	case u.Scheme != "http" && u.Scheme != "https":
		return t, t.refusal("", "its scheme is neither http nor https")
	case u.User != nil:
		return t, t.refusal("", "the address contains a user or password; send credentials in a header")
	case u.Opaque != "":
		return t, t.refusal("", "the address has no host")
	}
	return g.parseTarget(t.host, t.port)
}

// CheckURL reports in advance whether a URL may be reached. It looks up the name: all of
// its addresses must be permitted. The answer of DNS may change afterwards, so CheckURL
// does not replace dialing through the guard.
func (g *Guard) CheckURL(ctx context.Context, address string) error {
	u, err := url.Parse(address)
	if err != nil {
		// The URL may contain a secret, which the text of err would repeat.
		return target{host: "the address"}.refusal("", "it is not a valid URL")
	}
	t, err := g.parseURLTarget(u)
	if err != nil {
		return err
	}
	return g.checkLookup(ctx, t)
}

func (g *Guard) checkLookup(ctx context.Context, t target) error {
	addrs, err := g.resolver.LookupNetIP(ctx, "ip", t.host)
	if err != nil {
		e := toolroom.Errorf(toolroom.CodeUpstreamUnavailable, "cannot look up %s: %w", t.host, err)
		return e.WithHint("check the host name")
	}
	for _, addr := range addrs {
		if err := g.judgeAddr(t, addr); err != nil {
			return err
		}
	}
	return nil
}

func (g *Guard) judgeAddr(t target, addr netip.Addr) error {
	t.addr, t.class = addr.Unmap(), Classify(addr)
	return g.judge(t)
}

// offlineOutput matches what programs print if they find no name server.
var offlineOutput = regexp.MustCompile(`(?i)could not resolve|name resolution|getaddrinfo|EAI_AGAIN|no such host|name or service not known|network is unreachable|dial tcp: lookup|unable to resolve`)

// LacksNetwork reports whether the output of a program says that it failed for want of a
// network.
func LacksNetwork(output string) bool { return offlineOutput.MatchString(output) }
