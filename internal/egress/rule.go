package egress

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
)

// rule is one entry of a list: a class, a block of addresses, or a name; a block or name
// may have a port.
type rule struct {
	text   string
	class  Class
	prefix netip.Prefix
	// carried is the block of IPv4 addresses that prefix stands for, if it is one such as
	// ::10.0.0.0/104.
	carried netip.Prefix
	name    string
	below   bool // *.name
	port    uint16
}

// parseRule parses an entry such as loopback, 10.0.0.0/8, 10.1.2.3:80, [::1]:80,
// example.com, example.com:443 or *.example.com.
func parseRule(text string) (rule, error) {
	r := rule{text: text}
	if class := Class(text); slices.Contains(classes, class) {
		r.class = class
		return r, nil
	}
	if strings.Contains(text, "/") {
		prefix, err := netip.ParsePrefix(text)
		if err != nil {
			return r, fmt.Errorf("%q is not a block of addresses: write it like 10.0.0.0/8, and a host without scheme or path", text)
		}
		if prefix.Addr().Is4In6() {
			return r, fmt.Errorf("%q is an IPv6 form of a block of IPv4 addresses: write it like 10.0.0.0/8", text)
		}
		r.prefix = prefix.Masked()
		r.carried = carriedBlock(r.prefix)
		return r, nil
	}
	host := text
	if h, port, err := net.SplitHostPort(text); err == nil {
		if r.port = parsePort(port); r.port == 0 {
			return r, fmt.Errorf("%q: the port is not a number from 1 to 65535", text)
		}
		host = h
	} else if inner, ok := strings.CutPrefix(text, "["); ok {
		host = strings.TrimSuffix(inner, "]")
	}
	host, r.below = strings.CutPrefix(host, "*.")
	name, addr, err := parseHost(host)
	switch {
	case err != nil:
		return r, fmt.Errorf("%q is not a host, *.domain, host:port, address, block like 10.0.0.0/8 or class (loopback, private, shared, link-local, metadata): %w", text, err)
	case name == "" && r.below:
		return r, fmt.Errorf("%q: *. cannot precede an address", text)
	case name == "":
		r.prefix = netip.PrefixFrom(addr, addr.BitLen())
	}
	r.name = name
	return r, nil
}

// matches reports whether the rule applies to a target. Before the lookup of a name its
// address is not valid.
func (r rule) matches(t target) bool {
	switch {
	case r.port != 0 && r.port != t.port:
		return false
	case r.class != "":
		return t.class == r.class
	case r.prefix.IsValid():
		return r.prefix.Contains(t.addr.Unmap())
	case r.below:
		return strings.HasSuffix(t.name, "."+r.name)
	default:
		return t.name == r.name
	}
}

// refuses reports whether the rule, an entry of Policy.Deny, applies to a target. An entry for
// an IPv4 address also applies to IPv6 addresses that contain it: a translator of the network,
// such as NAT64, delivers there. An entry such as ::10.0.0.0/104 applies like 10.0.0.0/8.
func (r rule) refuses(t target) bool {
	if r.matches(t) || r.carried.Contains(t.addr.Unmap()) {
		return true
	}
	carried, ok := embeddedIPv4(t.addr)
	t.addr = carried
	return ok && (r.matches(t) || r.carried.Contains(t.addr))
}

// CheckRules returns an error that names the first entry of [Policy.Allow] or [Policy.Deny]
// that cannot be used, by its index in brackets.
func CheckRules(texts []string) error {
	_, err := parseRules(texts)
	return err
}

func parseRules(texts []string) ([]rule, error) {
	rules := make([]rule, len(texts))
	for i, text := range texts {
		var err error
		if rules[i], err = parseRule(text); err != nil {
			return nil, fmt.Errorf("[%d]: %w", i, err)
		}
	}
	return rules, nil
}

// ParseHosts parses an entry of a Policy and returns a function that reports whether
// host:port is among the named hosts. The function does not look up names.
func ParseHosts(entry string) (func(hostPort string) bool, error) {
	r, err := parseRule(entry)
	if err != nil {
		return nil, err
	}
	return func(hostPort string) bool {
		host, port, err := net.SplitHostPort(hostPort)
		if err != nil {
			return false
		}
		t, _ := (&Guard{}).parseTarget(host, parsePort(port)) // ignore whether it would be allowed
		return r.matches(t)
	}, nil
}
