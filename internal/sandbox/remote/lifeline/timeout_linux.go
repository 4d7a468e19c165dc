package lifeline

import (
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// control bounds how long sent bytes may go without being acknowledged: while
// there are some, keep-alives are not sent (tcp(7), TCP_USER_TIMEOUT). What is
// accepted inherits it from the listener.
func control(silence time.Duration) func(network, address string, c syscall.RawConn) error {
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
