//go:build unix && !linux

package proc

import (
	"os"
	"syscall"
)

// closeOnExec is no kind of socket here, so a child that starts meanwhile inherits the pair.
const closeOnExec = 0

func newProcessGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

func signalGroup(pid int, sig syscall.Signal) { _ = syscall.Kill(-pid, sig) }

// peakMemory returns 0: these systems use different units.
func peakMemory(*os.ProcessState) int64 { return 0 }
