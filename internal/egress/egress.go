// Package egress guards what Toolroom's own connections reach. Sources and
// sandboxes make every connection through a [Guard]: it reads the address of a
// request in one plain form or refuses it, and it judges the IP address at the
// moment of dialling, so that a name which leads elsewhere the second time, and
// every redirect, is judged anew. Begin with [New].
package egress

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/toolroom/toolroom"
)

// Policy says what may be reached. The zero Policy permits public addresses
// alone. Its entries are a host, *.domain, either with :port, an address, a
// block like 10.0.0.0/8, or a class such as loopback or private.
type Policy struct {
	// Closed permits nothing but what Allow names.
	Closed bool
	// Allow permits beyond that. A host name permits its public, private,
	// shared and loopback addresses; all others need an entry of their own.
	Allow []string
	// Deny refuses, whatever Allow says.
	Deny []string
	// Proxy is the URL of a proxy (http, https or socks5) for all but loopback
	// targets; empty uses none. Proxies of the environment are never used.
	Proxy string
	// Resolver looks names up; nil is the system's.
	Resolver *net.Resolver
}

// Guard judges targets and dials. It is immutable and safe for concurrent use.
// The zero Guard has the zero Policy.
type Guard struct {
	closed      bool
	allow, deny []rule
	// own are hosts that the operator wrote as the address of a service. They
	// are matched as they stand, in whatever form.
	own      []ownHost
	within   []rule // one of which must match, unless it is nil
	proxy    *url.URL
	resolver *net.Resolver
}

type ownHost struct {
	host string
	addr netip.Addr
	port uint16
}

// CheckEntry tells what is wrong with an entry of Policy.Allow or Policy.Deny.
func CheckEntry(text string) error {
	_, err := parseRule(text)
	return err
}

// CheckProxy tells what is wrong with a Policy.Proxy that is not empty.
func CheckProxy(text string) error {
	_, err := parseProxy(text)
	return err
}

// New makes a guard. The error names the first entry that cannot be read.
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
		return nil, errors.New("it is not the URL of a proxy; write http://host:port, https://… or socks5://…")
	}
	return u, nil
}

// WithOwn gives a guard that also permits the hosts and ports of addresses which
// the operator wrote as those of a service. Deny still goes before. A nil g is
// the zero Guard.
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
		if u.Port() == "" {
			ports = []uint16{80, 443} // a service may lead from http to https
		}
		for _, o.port = range ports {
			more.own = append(more.own, o)
		}
	}
	return &more
}

// Within gives a guard that permits, of what g permits, what entries name alone. A
// nil g is the zero Guard. The error names the first entry that cannot be read.
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

// outside tells whether the list of Within, if there is one, does not have t. Of a
// name that is not looked up yet only what no address can change is told.
func (g *Guard) outside(t target) bool {
	return g.within != nil && !slices.ContainsFunc(g.within, func(r rule) bool {
		return r.matches(t) || t.class == "" && r.name == "" && (r.port == 0 || r.port == t.port)
	})
}

func (t target) notListed() error {
	return t.refusal("", "it is not among the hosts that the program asked for").
		WithHint("add %q to the list of hosts that the program is started with (egress)", net.JoinHostPort(strings.ToLower(t.host), strconv.Itoa(int(t.port))))
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

// parsePort gives zero, which is refused, for what is no port.
func parsePort(text string) uint16 {
	n, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		return 0
	}
	return uint16(n)
}

// target is what a request wants to reach.
type target struct {
	host  string // as it was written
	name  string // empty for an address
	addr  netip.Addr
	port  uint16
	class Class // empty while the address is not known
}

// read takes a host and port apart and judges all that is known before a lookup.
func (g *Guard) read(host string, port uint16) (target, error) {
	t := target{host: host, port: port}
	var reason error
	t.name, t.addr, reason = readHost(host)
	if t.addr.IsValid() {
		t.class = Classify(t.addr)
	} else if class, ok := classOfName(t.name); ok {
		t.class = class
	}
	if port == 0 {
		return t, t.refusal("", "its port is not a number from 1 to 65535")
	}
	if reason != nil {
		if g.isOwn(t) {
			return t, nil // judged when it is dialled
		}
		return t, t.refusal("", reason.Error())
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

// judgeName refuses a name that is denied by name, and where egress is closed one
// that nothing can allow: to look it up would tell its DNS server of it. The rest
// is judged at dial.
func (g *Guard) judgeName(t target) error {
	if g.outside(t) {
		return t.notListed()
	}
	for _, r := range g.deny {
		if r.matches(t) {
			return t.denied(r)
		}
	}
	if g.closed && !g.isOwn(t) && !slices.ContainsFunc(g.allow, func(r rule) bool { return r.name == "" || r.matches(t) }) {
		return t.refusal(t.allowEntry(), "egress is closed and no entry allows it")
	}
	return nil
}

// judge decides about a target whose address, or class, is known.
func (g *Guard) judge(t target) error {
	if g.outside(t) {
		return t.notListed()
	}
	for _, r := range g.deny {
		if r.matches(t) {
			return t.denied(r)
		}
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
	case t.class != Public:
		return t.refusal(t.allowEntry(), t.whatItIs()+", which is refused by default")
	case g.closed:
		return t.refusal(t.allowEntry(), "egress is closed and no entry allows it")
	default:
		return nil
	}
}

// whatItIs tells the class, and the address where that is not what was written.
func (t target) whatItIs() string {
	switch {
	case t.name != "" && t.addr.IsValid():
		return fmt.Sprintf("it leads to %s, a %s address", t.addr, t.class)
	default:
		return fmt.Sprintf("it is a %s address", t.class)
	}
}

// allowEntry is the narrowest entry that would permit the target.
func (t target) allowEntry() string {
	switch {
	case t.name != "" && t.addr.IsValid() && !coveredByName(t.class):
		return net.JoinHostPort(t.addr.String(), strconv.Itoa(int(t.port)))
	case t.name != "" && t.class == Metadata:
		return string(Metadata)
	default:
		return net.JoinHostPort(strings.ToLower(t.host), strconv.Itoa(int(t.port)))
	}
}

func (t target) denied(r rule) error {
	e := toolroom.Errorf(toolroom.CodeDenied, "%s may not be reached: egress.deny names %q", t.host, r.text)
	e.Details = t.details()
	return e.WithHint("egress.deny goes before egress.allow; remove the entry from toolroom.yaml if %s is right", t.host)
}

func (t target) refusal(entry, reason string) *toolroom.Error {
	e := toolroom.Errorf(toolroom.CodeDenied, "%q may not be reached: %s", t.host, reason)
	e.Details = t.details()
	if entry == "" {
		return e.WithHint("write the host as a plain name or address")
	}
	e.Details["allow"] = entry
	return e.WithHint("if that is meant, allow it in toolroom.yaml: egress: {allow: [%q]}", entry)
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

// readURL judges the form of an address.
func (g *Guard) readURL(u *url.URL) (target, error) {
	t := target{host: u.Hostname(), port: portOf(u)}
	switch {
	case u.Scheme != "http" && u.Scheme != "https":
		return t, t.refusal("", "its scheme is neither http nor https")
	case u.User != nil:
		return t, t.refusal("", "the address has a user or password before its host; send credentials in a header")
	case u.Opaque != "":
		return t, t.refusal("", "the address has no host")
	}
	return g.read(t.host, t.port)
}

// CheckURL tells in advance whether an address may be reached. It looks the
// name up: every one of its addresses must be permitted. The answer of DNS may
// change afterwards, so it does not stand in for dialling through the guard.
func (g *Guard) CheckURL(ctx context.Context, address string) error {
	u, err := url.Parse(address)
	if err != nil {
		// The address may hold a secret, and the text of err repeats it.
		return target{host: "the address"}.refusal("", "it cannot be read as a URL")
	}
	t, err := g.readURL(u)
	if err != nil || t.addr.IsValid() {
		return err
	}
	return g.checkLookup(ctx, t)
}

func (g *Guard) checkLookup(ctx context.Context, t target) error {
	addrs, err := g.resolver.LookupNetIP(ctx, "ip", t.host)
	if err != nil {
		e := toolroom.Errorf(toolroom.CodeUpstreamUnavailable, "%s cannot be looked up: %w", t.host, err)
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
