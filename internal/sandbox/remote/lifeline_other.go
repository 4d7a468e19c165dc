//go:build !linux

package remote

import (
	"net"
	"syscall"
	"time"
)

// socketControl returns nil: on this system only keep-alives detect lost connections.
func socketControl(time.Duration) func(network, address string, c syscall.RawConn) error { return nil }

// IsDisconnected returns false: on this system a lost connection is detected only by reading.
func IsDisconnected(net.Conn) bool { return false }
