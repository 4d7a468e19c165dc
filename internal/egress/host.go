package egress

import (
	"errors"
	"net/netip"
	"strings"
)

// metadataNames lead to the metadata service within their clouds.
var metadataNames = map[string]bool{
	"metadata":                   true,
	"metadata.google.internal":   true,
	"metadata.goog":              true,
	"instance-data":              true,
	"instance-data.ec2.internal": true,
	"metadata.azure.internal":    true,
	"metadata.tencentyun.com":    true,
}

// classOfName is the class that a name has by convention, whatever DNS says.
func classOfName(name string) (Class, bool) {
	name = strings.TrimSuffix(name, ".")
	switch {
	case name == "localhost", strings.HasSuffix(name, ".localhost"), name == "localhost.localdomain", name == "ip6-localhost", name == "ip6-loopback":
		return Loopback, true
	case metadataNames[name]:
		return Metadata, true
	default:
		return "", false
	}
}

// IsPlainHost reports whether a host is a name or address in the one form that
// the guard accepts.
func IsPlainHost(host string) bool {
	_, _, err := readHost(host)
	return err == nil
}

// readHost accepts a host in its one plain form: a name in ASCII, or an address
// as [netip.Addr] writes it. Every other form that some resolver or library
// reads as an address is refused: the reader that checks and the one that dials
// must not read it differently.
func readHost(host string) (name string, addr netip.Addr, err error) {
	switch {
	case host == "":
		return "", addr, errors.New("it has no host")
	case len(host) > 253:
		return "", addr, errors.New("the host is longer than a name can be")
	}
	if strings.Contains(host, ":") {
		return readIPv6(host)
	}
	for i := range len(host) {
		switch c := host[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '-', c == '.', c == '_':
		case c >= 0x80:
			return "", addr, errors.New("the host has letters or digits beyond ASCII, which libraries read differently; write an international name in its xn-- form")
		default:
			return "", addr, errors.New("the host has a character that no host name has")
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
			return "", addr, errors.New("the host has two dots together, or begins with one")
		}
	}
	if endsInNumber(name) {
		return "", addr, errors.New("the host is an address in a short, decimal, octal or hexadecimal form")
	}
	return name, addr, nil
}

func readIPv6(host string) (string, netip.Addr, error) {
	addr, err := netip.ParseAddr(host)
	switch {
	case err != nil:
		return "", addr, errors.New("the host is no IPv6 address")
	case addr.Zone() != "":
		return "", addr, errors.New("the address names a network interface")
	}
	if _, carries := carriedIPv4(addr); carries && !addr.IsLoopback() && !addr.IsUnspecified() {
		return "", addr, errors.New("the address is an IPv6 form of an IPv4 address")
	}
	return "", addr, nil
}

// endsInNumber is the rule by which browsers tell addresses from names
// (WHATWG URL, "ends in a number checker").
func endsInNumber(name string) bool {
	last := name[strings.LastIndexByte(name, '.')+1:]
	if strings.Trim(last, "0123456789") == "" {
		return true
	}
	digits, hex := strings.CutPrefix(last, "0x")
	return hex && strings.Trim(digits, "0123456789abcdef") == ""
}
