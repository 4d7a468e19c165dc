package cli

import (
	"errors"
	"net"

	"golang.org/x/sys/unix"
)

// peerKnown reports that peerUID works here.
const peerKnown = true

// peerUID returns the user at the other end of a Unix socket.
func peerUID(conn net.Conn) (int, error) {
	socket, ok := conn.(*net.UnixConn)
	if !ok {
		return 0, errors.New("it is not a Unix socket")
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return 0, err
	}
	uid := 0
	var failed error
	err = raw.Control(func(fd uintptr) {
		var peer *unix.Ucred
		if peer, failed = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED); failed == nil {
			uid = int(peer.Uid)
		}
	})
	return uid, errors.Join(err, failed)
}
