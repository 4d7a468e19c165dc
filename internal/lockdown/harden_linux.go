//go:build amd64 || arm64

package lockdown

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// Harden puts the hardened filter on this process, on all its threads and all
// that it starts, for ever. It is for a guest whose other walls stand around it
// already: a container, or a machine of its own.
func Harden() error {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("sandbox: no_new_privs: %w", err)
	}
	if err := hardenedFilter(surroundings{alone: true}).install(unix.SECCOMP_FILTER_FLAG_TSYNC); err != nil {
		return fmt.Errorf("sandbox: %w", err)
	}
	return nil
}
