package egress

import (
	"errors"
	"net/netip"
	"strings"
)

// metadataNames resolve to the metadata service inside their clouds.
var metadataNames = map[string]bool{
	"metadata":                   true,
	"metadata.google.internal":   true,
	"metadata.goog":              true,
	"instance-data":              true,
	"instance-data.ec2.internal": true,
	"metadata.azure.internal":    true,
	"metadata.tencentyun.com":    true,
}

// classOfName returns the conventional class of a name, whatever DNS says, or "".
func classOfName(name string) Class {
	switch {
	case name == "localhost", strings.HasSuffix(name, ".localhost"), name == "localhost.localdomain", name == "ip6-localhost", name == "ip6-loopback":
		return Loopback
	case metadataNames[name]:
		return Metadata
	default:
		return ""
	}
}

// IsPlainHost reports whether a host is a name or address in the form that the guard
// accepts.
func IsPlainHost(host string) bool {
	_, _, err := parseHost(host)
	return err == nil
}

// parseHost accepts a host in one plain form only: a name in ASCII, or an address as
// [netip.Addr] writes it. It refuses every other form that some resolver or library
// understands as an address, because the code that checks a host and the code that dials
// it must not understand it differently.
func parseHost(host string) (name string, addr netip.Addr, err error) {
	switch {
	case host == "":
		return "", addr, errors.New("it has no host")
	case len(host) > 253:
		return "", addr, errors.New("the host is longer than 253 characters")
	}
	if strings.Contains(host, ":") {
		return parseIPv6(host)
	}
	for i := range len(host) {
		switch c := host[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '-', c == '.', c == '_':
		case c >= 0x80:
			return "", addr, errors.New("the host contains characters beyond ASCII, which libraries interpret differently; write an international name in its xn-- form")
		default:
			return "", addr, errors.New("the host contains a character that is not allowed in host names")
		}
	}
	if addr, err := netip.ParseAddr(host); err == nil {
		return "", addr, nil
	}
	name = strings.ToLower(host)
	if strings.HasSuffix(name, ".") {
		return "", addr, errors.New("the host ends with a dot")
	}
	for label := range strings.SplitSeq(name, ".") {
		if label == "" {
			return "", addr, errors.New("the host contains two adjacent dots, or begins with one")
		}
	}
	if endsInNumber(name) {
		return "", addr, errors.New("the host is an address in a short, decimal, octal or hexadecimal form")
	}
	return name, addr, nil
}

func parseIPv6(host string) (string, netip.Addr, error) {
	addr, err := netip.ParseAddr(host)
	switch {
	case err != nil:
		return "", addr, errors.New("the host is not a valid IPv6 address")
	case addr.Zone() != "":
		return "", addr, errors.New("the address names a network interface")
	}
	if _, carries := embeddedIPv4(addr); carries && !addr.IsLoopback() && !addr.IsUnspecified() {
		return "", addr, errors.New("the address is an IPv6 form of an IPv4 address")
	}
	return "", addr, nil
}

// endsInNumber reports whether browsers treat a name as an address (WHATWG URL, "ends in a
// number checker").
func endsInNumber(name string) bool {
	last := name[strings.LastIndexByte(name, '.')+1:]
	if strings.Trim(last, "0123456789") == "" {
		return true
	}
	digits, hex := strings.CutPrefix(last, "0x")
	return hex && strings.Trim(digits, "0123456789abcdef") == ""
}
