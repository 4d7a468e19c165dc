package proc

import (
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// Peer returns the user and the process at the other end of a Unix socket. For the end that
// connected, it is the process that listened.
func Peer(c net.Conn) (user, process int, err error) {
	socket, ok := c.(syscall.Conn)
	if !ok {
		return 0, 0, ErrUnknownPeer
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return 0, 0, err
	}
	var cerr error
	err = raw.Control(func(fd uintptr) {
		var cred *unix.Xucred
		if cred, cerr = unix.GetsockoptXucred(int(fd), unix.SOL_LOCAL, unix.LOCAL_PEERCRED); cerr == nil {
			user = int(cred.Uid)
			process, cerr = unix.GetsockoptInt(int(fd), unix.SOL_LOCAL, unix.LOCAL_PEERPID)
		}
	})
	if err == nil {
		err = cerr
	}
	return user, process, err
}
