//go:build !linux && !windows

package proc

import (
	"errors"
	"os"
	"strconv"
	"syscall"
)

// ownerForm matches the names that Owner returns.
const ownerForm = "[0-9]+"

// Owner returns the name of this process.
func Owner() string { return strconv.Itoa(os.Getpid()) }

// Alive reports whether the process named by owner still runs. It mistakes another process
// with the same id for it.
func Alive(owner string) bool {
	pid, err := strconv.Atoi(owner)
	if err != nil {
		return false
	}
	err = syscall.Kill(pid, 0)
	return err == nil || errors.Is(err, syscall.EPERM) // that of another user runs too
}
