package proc

import (
	"encoding/binary"
	"errors"
	"net/netip"
)

// Kinds and offsets of the records in the list of TCP sockets of macOS (the sysctl
// net.inet.tcp.pcblist_n), from struct xinpcb_n and struct xsocket_n in its kernel. All
// Macs are little-endian; addresses and ports are in network order.
const (
	pcbInternet = 0x10
	pcbSocket   = 0x01

	pcbForeignPort = 16
	pcbLocalPort   = 18
	pcbVersion     = 44 // bit 0: IPv4, bit 1: IPv6
	pcbForeign     = 48
	pcbLocal       = 64
	pcbInternetLen = 80
	pcbUID         = 64
	pcbSocketLen   = 68
)

var errPCBList = errors.New("the list of sockets has an unknown form")

// pcbUser returns the user of the TCP socket with a local and a remote address in a list,
// which must also have the socket at its other end, of this process with the user own:
// that shows that the list has the form that this function reads.
func pcbUser(list []byte, local, remote netip.AddrPort, own uint32) (uid uint32, found bool, err error) {
	little, big := binary.LittleEndian, binary.BigEndian
	var ours bool
	var atLocal, atRemote netip.AddrPort
	for rest := list; len(rest) >= 8; {
		size, kind := int(little.Uint32(rest)), little.Uint32(rest[4:])
		padded := (size + 7) &^ 7
		if size < 8 || padded > len(rest) {
			return 0, false, errPCBList
		}
		record := rest[:size]
		if len(rest) == len(list) {
			kind = 0 // the header of the list has a number in this place
		}
		rest = rest[padded:]
		switch {
		case kind == pcbInternet && size >= pcbInternetLen:
			atLocal = netip.AddrPortFrom(pcbAddress(record, pcbLocal), big.Uint16(record[pcbLocalPort:]))
			atRemote = netip.AddrPortFrom(pcbAddress(record, pcbForeign), big.Uint16(record[pcbForeignPort:]))
		case kind == pcbSocket && size >= pcbSocketLen:
			switch user := little.Uint32(record[pcbUID:]); {
			case atLocal == local && atRemote == remote:
				uid, found = user, true
			case atLocal == remote && atRemote == local:
				ours = user == own
			}
			atLocal, atRemote = netip.AddrPort{}, netip.AddrPort{}
		}
	}
	if !ours {
		return 0, false, errPCBList
	}
	return uid, found, nil
}

// pcbAddress returns an address of a record. One of IPv4 is in the last four of 16 bytes.
func pcbAddress(record []byte, at int) netip.Addr {
	if record[pcbVersion]&1 != 0 {
		return netip.AddrFrom4([4]byte(record[at+12 : at+16]))
	}
	return netip.AddrFrom16([16]byte(record[at : at+16])).Unmap()
}
