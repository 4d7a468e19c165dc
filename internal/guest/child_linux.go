package guest

import (
	"fmt"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// childAttributes end a program with the guest. The caller stays on its thread,
// because Linux ends a child with the thread that started it.
func childAttributes() *syscall.SysProcAttr {
	runtime.LockOSThread()
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// peakMemory is in KiB here (getrusage(2)).
func peakMemory(r *syscall.Rusage) int64 { return r.Maxrss << 10 }

// hide keeps programs, which are of the same user, from this process's memory,
// files and first environment, where the token still is.
func hide() error {
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("hide the guest's memory: %w", err)
	}
	return nil
}
