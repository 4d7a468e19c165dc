package guest

import (
	"fmt"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// childAttributes returns attributes that kill a program when the guest ends. It
// locks the caller to its thread, because Linux kills a child when the thread that
// started it ends.
func childAttributes() *syscall.SysProcAttr {
	runtime.LockOSThread()
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// peakMemory returns the peak in bytes; the kernel counts KiB (getrusage(2)).
func peakMemory(r *syscall.Rusage) int64 { return r.Maxrss << 10 }

// hide protects this process's memory, files and initial environment, which still
// contains the token, from programs of the same user.
func hide() error {
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("hide the guest's memory: %w", err)
	}
	return nil
}
