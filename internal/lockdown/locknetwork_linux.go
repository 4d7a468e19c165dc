//go:build amd64 || arm64

package lockdown

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// lockNetwork limits this process, and the program that it executes, to TCP, UDP
// and netlink sockets, so that in its own network namespace it reaches nothing but
// that namespace. A network namespace does not confine named Unix sockets, such as
// those of Docker or D-Bus, or sockets of virtual machines. Pairs that stay
// connected are allowed. It must be called on the thread that will execute
// the program.
func lockNetwork() error {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("no_new_privs: %w", err)
	}
	return networkFilter().install(unix.SECCOMP_FILTER_FLAG_TSYNC)
}

func networkFilter() filter {
	f := newFilter()
	f.addCall(unix.SYS_SOCKET, loadArg(0),
		jumpEqual(unix.AF_INET, 3, 0), jumpEqual(unix.AF_INET6, 2, 0), jumpEqual(unix.AF_NETLINK, 1, 0),
		answer(noFamily), answer(allow))
	f.addCall(unix.SYS_SOCKETPAIR, connectedPairs...)
	// io_uring would make sockets without passing this filter.
	f.addCall(unix.SYS_IO_URING_SETUP, answer(unknown))
	return append(f, answer(allow))
}
