//go:build unix && !linux

package guest

import (
	"syscall"
)

func childAttributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// peakMemory is in bytes here (getrusage(2) of BSD).
func peakMemory(r *syscall.Rusage) int64 { return r.Maxrss }

// hide does nothing: other systems have no sandbox that a guest shares with a
// program.
func hide() error { return nil }
