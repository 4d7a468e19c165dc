package remote

import (
	"net"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// socketControl limits the time in which sent bytes must be acknowledged, because keep-alives are
// not sent while bytes are unacknowledged (tcp(7), TCP_USER_TIMEOUT). Accepted connections
// inherit the setting from the listener.
func socketControl(silence time.Duration) func(network, address string, c syscall.RawConn) error {
	return func(_, _ string, c syscall.RawConn) error {
		var err error
		if cerr := c.Control(func(fd uintptr) {
			err = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(silence.Milliseconds()))
		}); cerr != nil {
			return cerr
		}
		return err
	}
}

// IsDisconnected reports whether the peer has closed the connection, or the network has lost it, even
// if there is still data to read.
func IsDisconnected(c net.Conn) bool {
	if secure, ok := c.(interface{ NetConn() net.Conn }); ok { // *tls.Conn
		c = secure.NetConn()
	}
	socket, ok := c.(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return true
	}
	gone := false
	err = raw.Control(func(fd uintptr) {
		state := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLRDHUP}}
		n, err := unix.Poll(state, 0)
		gone = err == nil && n > 0 && state[0].Revents&(unix.POLLRDHUP|unix.POLLERR|unix.POLLHUP) != 0
	})
	return gone || err != nil
}
