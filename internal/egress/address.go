package egress

import "net/netip"

// Class says what kind of place an address is.
type Class string

// The classes. Only Public addresses are reached without a rule.
const (
	Public      Class = "public"
	Loopback    Class = "loopback"
	Private     Class = "private"
	Shared      Class = "shared" // carrier-grade NAT, RFC 6598
	LinkLocal   Class = "link-local"
	Metadata    Class = "metadata" // of cloud machines: hands out credentials
	Multicast   Class = "multicast"
	Unspecified Class = "unspecified"
	Reserved    Class = "reserved"
)

// classes lists what a rule may name, with the classes that a rule for a host
// name covers first: a service of one's own may be on these, and never on the
// others.
var classes = []Class{Public, Loopback, Private, Shared, LinkLocal, Metadata, Multicast, Unspecified, Reserved}

// coveredByName reports whether a rule for a host name permits addresses of
// the class. The metadata service and the like are for rules that name the
// address or the class: a name that suddenly leads there is an attack.
func coveredByName(c Class) bool {
	return c == Public || c == Loopback || c == Private || c == Shared
}

// metadataAddrs answer with the credentials of the machine, at the clouds that
// are in wide use. Some of them are public or shared by their number.
var metadataAddrs = map[netip.Addr]bool{
	netip.MustParseAddr("169.254.169.254"): true, // AWS, GCP, Azure, OpenStack and others
	netip.MustParseAddr("169.254.170.2"):   true, // AWS ECS
	netip.MustParseAddr("169.254.170.23"):  true, // AWS EKS
	netip.MustParseAddr("fd00:ec2::254"):   true, // AWS
	netip.MustParseAddr("fd00:ec2::23"):    true, // AWS EKS
	netip.MustParseAddr("fd20:ce::254"):    true, // GCP
	netip.MustParseAddr("100.100.100.200"): true, // Alibaba
	netip.MustParseAddr("192.0.0.192"):     true, // Oracle
	netip.MustParseAddr("168.63.129.16"):   true, // Azure
}

type block struct {
	prefix netip.Prefix
	class  Class
}

// blocks are those of the IANA special-purpose registries (RFC 6890) that
// [netip.Addr] has no question for. The first that holds an address decides.
var blocks = func() []block {
	var out []block
	for _, b := range []struct {
		prefix string
		class  Class
	}{
		{"0.0.0.0/8", Unspecified},
		{"100.64.0.0/10", Shared},
		{"192.0.0.0/24", Reserved},
		{"192.0.2.0/24", Reserved},
		{"192.88.99.0/24", Reserved},
		{"198.18.0.0/15", Reserved},
		{"198.51.100.0/24", Reserved},
		{"203.0.113.0/24", Reserved},
		{"240.0.0.0/4", Reserved},
		{"fec0::/10", Private}, // site-local, RFC 3879
		{"2001::/23", Reserved},
		{"2001:db8::/32", Reserved},
		{"3fff::/20", Reserved},
	} {
		out = append(out, block{netip.MustParsePrefix(b.prefix), b.class})
	}
	return out
}()

var (
	nat64      = netip.MustParsePrefix("64:ff9b::/96")
	sixToFour  = netip.MustParsePrefix("2002::/16")
	compatible = netip.MustParsePrefix("::/96")
	global6    = netip.MustParsePrefix("2000::/3")
)

// Classify tells the class of an address. An IPv6 address that carries an IPv4
// one (mapped, NAT64) has the class of what it carries; the retired forms that
// do (compatible, 6to4) are at best reserved.
func Classify(addr netip.Addr) Class {
	addr = addr.WithZone("").Unmap()
	switch {
	case metadataAddrs[addr]:
		return Metadata
	case addr.IsUnspecified():
		return Unspecified
	case addr.IsLoopback():
		return Loopback
	case addr.IsPrivate():
		return Private
	case addr.IsLinkLocalUnicast():
		return LinkLocal
	case addr.IsMulticast():
		return Multicast
	}
	for _, b := range blocks {
		if b.prefix.Contains(addr) {
			return b.class
		}
	}
	if addr.Is4() {
		return Public
	}
	carried, ok := carriedIPv4(addr)
	switch {
	case ok && nat64.Contains(addr):
		return Classify(carried)
	case ok:
		if c := Classify(carried); c != Public {
			return c
		}
		return Reserved
	case !global6.Contains(addr):
		return Reserved
	default:
		return Public
	}
}

// carriedIPv4 is the IPv4 address within an IPv6 one.
func carriedIPv4(addr netip.Addr) (netip.Addr, bool) {
	b := addr.As16()
	switch {
	case addr.Is4In6(), nat64.Contains(addr), compatible.Contains(addr):
		return netip.AddrFrom4([4]byte(b[12:])), true
	case sixToFour.Contains(addr):
		return netip.AddrFrom4([4]byte(b[2:6])), true
	default:
		return netip.Addr{}, false
	}
}
