//go:build !linux && !darwin

package peer

import "net"

// Of returns [ErrUnknown] on this system.
func Of(net.Conn) (user, process int, err error) { return 0, 0, ErrUnknown }
