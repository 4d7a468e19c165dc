//go:build !linux

package lifeline

import (
	"net"
	"syscall"
	"time"
)

// control has nothing to set: keep-alives alone must do.
func control(time.Duration) func(network, address string, c syscall.RawConn) error { return nil }

// Gone cannot be told without reading.
func Gone(net.Conn) bool { return false }
