//go:build !linux && !darwin

package proc

import "net"

// Peer returns [ErrUnknownPeer] on this system.
func Peer(net.Conn) (user, process int, err error) { return 0, 0, ErrUnknownPeer }
