package microvm

import (
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// socketPair returns a connected pair of Unix sockets, one for this process and one for a child.
func socketPair() (ours *net.UnixConn, theirs *os.File, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, err
	}
	file := os.NewFile(uintptr(fds[0]), "machine")
	defer file.Close()
	theirs = os.NewFile(uintptr(fds[1]), "machine")
	conn, err := net.FileConn(file)
	if err != nil {
		theirs.Close()
		return nil, nil, err
	}
	return conn.(*net.UnixConn), theirs, nil
}

// rights returns the control message that passes an open file to the reader.
func rights(f *os.File) []byte { return unix.UnixRights(int(f.Fd())) }
