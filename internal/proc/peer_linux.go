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
	var cred *unix.Ucred
	var cerr error
	err = raw.Control(func(fd uintptr) { cred, cerr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) })
	if err == nil {
		err = cerr
	}
	if err != nil {
		return 0, 0, err
	}
	return int(cred.Uid), int(cred.Pid), nil
}
