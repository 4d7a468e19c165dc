package guest

import (
	"runtime"
	"syscall"
)

// childAttributes end a program with the guest. The caller stays on its thread,
// because Linux ends a child with the thread that started it.
func childAttributes() *syscall.SysProcAttr {
	runtime.LockOSThread()
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// peakMemory is in KiB here (getrusage(2)).
func peakMemory(r *syscall.Rusage) int64 { return r.Maxrss << 10 }
