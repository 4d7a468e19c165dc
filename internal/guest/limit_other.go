//go:build unix && !linux

package guest

import (
	"syscall"

	"github.com/toolroom/toolroom/bridge"
)

// limit has nothing by which to limit a process that runs already.
func limit(int, bridge.Limits) error { return nil }

func childAttributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// peakMemory is in bytes here (getrusage(2) of BSD).
func peakMemory(r *syscall.Rusage) int64 { return r.Maxrss }
