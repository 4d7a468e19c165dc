package microvm

import (
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// pair is a connected pair of Unix sockets: one is ours, the other is given to
// a process.
func pair() (ours *net.UnixConn, theirs *os.File, err error) {
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

// rights is the control message that gives an open file to who reads it.
func rights(f *os.File) []byte { return unix.UnixRights(int(f.Fd())) }
