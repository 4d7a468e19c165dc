//go:build !linux && !darwin

package proc

import (
	"net"
	"net/netip"
)

// checkLocalPeer returns [ErrUnknownPeer] on this system.
func checkLocalPeer(net.Conn, netip.AddrPort, netip.AddrPort) error { return ErrUnknownPeer }
