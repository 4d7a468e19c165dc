//go:build amd64 || arm64

package lockdown

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// LockNetwork leaves this process, and what it executes, sockets of TCP, UDP and
// netlink alone: in a network namespace of its own it then reaches nothing but
// that namespace. Unix sockets with a name, such as those of Docker or D-Bus,
// and those of virtual machines do not stop at a namespace. Pairs of connected
// sockets stay. It must be called on the thread that will execute the program.
func LockNetwork() error {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("no_new_privs: %w", err)
	}
	return networkFilter().install(unix.SECCOMP_FILTER_FLAG_TSYNC)
}

func networkFilter() filter {
	f := newFilter()
	f.on(unix.SYS_SOCKET, loadArg(0),
		jumpEqual(unix.AF_INET, 3, 0), jumpEqual(unix.AF_INET6, 2, 0), jumpEqual(unix.AF_NETLINK, 1, 0),
		answer(noFamily), answer(allow))
	// One of a pair of datagram sockets could be turned to a name afterwards.
	f.on(unix.SYS_SOCKETPAIR, loadArg(1), and(0xf), jumpEqual(unix.SOCK_DGRAM, 0, 1), answer(refuse), answer(allow))
	// It makes sockets past this filter.
	f.on(unix.SYS_IO_URING_SETUP, answer(unknown))
	return append(f, answer(allow))
}
