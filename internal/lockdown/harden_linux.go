//go:build amd64 || arm64

package lockdown

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// Harden installs a seccomp filter, permanently, on all threads of this process
// and everything it starts. It is for guests that already run in other isolation:
// a container or a virtual machine. If loopback is set, the filter allows internet
// sockets.
func Harden(f Filter, loopback bool) error {
	var rules filter
	switch around := (surroundings{network: loopback, alone: true}); f {
	case Standard:
		rules = standardFilter(around)
	case Hardened:
		rules = hardenedFilter(around)
	default:
		return fmt.Errorf("sandbox: no seccomp filter %q: there are %q and %q", f, Standard, Hardened)
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("sandbox: no_new_privs: %w", err)
	}
	if err := rules.install(unix.SECCOMP_FILTER_FLAG_TSYNC); err != nil {
		return fmt.Errorf("sandbox: %w", err)
	}
	return nil
}
