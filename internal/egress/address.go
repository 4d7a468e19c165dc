package egress

import "net/netip"

// Class is a category of addresses.
type Class string

// The classes. Without a rule only Public addresses are reached.
const (
	Public      Class = "public"
	Loopback    Class = "loopback"
	Private     Class = "private"
	Shared      Class = "shared" // carrier-grade NAT, RFC 6598
	LinkLocal   Class = "link-local"
	Metadata    Class = "metadata" // metadata services of clouds, which hand out credentials
	Multicast   Class = "multicast"
	Unspecified Class = "unspecified"
	Reserved    Class = "reserved"
)

// classes are the classes that a rule may name.
var classes = []Class{Public, Loopback, Private, Shared, LinkLocal, Metadata, Multicast, Unspecified, Reserved}

// coveredByName reports whether a rule for a host name permits addresses of the class.
// The metadata service and the like need rules that name the address or the class: a
// name that suddenly resolves to them is an attack.
func coveredByName(c Class) bool {
	return c == Public || c == Loopback || c == Private || c == Shared
}

// metadataAddrs are the addresses of metadata services, which return a machine's
// credentials, in widely used clouds. Some of them are in public or shared ranges.
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

// blocks are those blocks of the IANA special-purpose registries (RFC 6890) for which
// [netip.Addr] has no method. The first block that contains an address decides.
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

// Classify returns the class of an address. An IPv6 address that contains an IPv4 address
// (mapped, NAT64) has the class of that address; with the obsolete forms (compatible,
// 6to4) it is never public, but at best reserved.
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
	carried, ok := embeddedIPv4(addr)
	switch {
	case nat64.Contains(addr):
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

// embeddedIPv4 returns the IPv4 address in an IPv6 address.
func embeddedIPv4(addr netip.Addr) (netip.Addr, bool) {
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

// carriedBlock returns the block of IPv4 addresses that a block such as ::10.0.0.0/104 stands for,
// or the zero Prefix. Blocks of NAT64 and 6to4 stand for the addresses of that translator only.
func carriedBlock(block netip.Prefix) netip.Prefix {
	const before = 96 // bits before the IPv4 address
	if !compatible.Contains(block.Addr()) || block.Bits() <= before {
		return netip.Prefix{}
	}
	carried, _ := embeddedIPv4(block.Addr())
	return netip.PrefixFrom(carried, block.Bits()-before)
}
