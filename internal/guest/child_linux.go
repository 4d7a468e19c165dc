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

// disableCoreDumps turns core dumps off, for a sandbox that cannot. The kernel takes 1 to mean none:
// with 0 the machine's handler, which is no process of the sandbox, would still run.
func disableCoreDumps() error {
	var now syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_CORE, &now); err != nil || now.Max < 1 {
		return err
	}
	return syscall.Setrlimit(syscall.RLIMIT_CORE, &syscall.Rlimit{Cur: 1, Max: 1})
}

// protectProcess protects this process's memory, files and initial environment, which still
// contains the token, from programs of the same user.
func protectProcess() error {
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("hide the guest's memory: %w", err)
	}
	return nil
}
