//go:build !linux && !darwin

package proc

import "net/netip"

// checkLocalPeer returns [ErrUnknownPeer] on this system.
func checkLocalPeer(_, _ netip.AddrPort) error { return ErrUnknownPeer }
