//go:build unix && !linux

package guest

import (
	"syscall"
)

func childAttributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// peakMemory returns the peak in bytes, as the kernel counts it (getrusage(2) of
// BSD).
func peakMemory(r *syscall.Rusage) int64 { return r.Maxrss }

// protectProcess does nothing: on other systems no sandbox is shared by a guest and a
// program.
func protectProcess() error { return nil }

func disableCoreDumps() error { return nil }
