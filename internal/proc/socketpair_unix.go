//go:build unix

package proc

import (
	"fmt"
	"net"
	"os"
	"syscall"
)

// SocketPair returns a connected pair of Unix sockets of a kind such as syscall.SOCK_STREAM:
// one for this process, and one for a child. Other children do not inherit them.
func SocketPair(kind int) (ours *net.UnixConn, theirs *os.File, err error) {
	fds, err := syscall.Socketpair(syscall.AF_UNIX, kind|closeOnExec, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("make a socket: %w", err)
	}
	syscall.CloseOnExec(fds[0])
	syscall.CloseOnExec(fds[1])
	local := os.NewFile(uintptr(fds[0]), "ours")
	defer local.Close()
	theirs = os.NewFile(uintptr(fds[1]), "theirs")
	conn, err := net.FileConn(local)
	if err != nil {
		theirs.Close()
		return nil, nil, err
	}
	return conn.(*net.UnixConn), theirs, nil
}
