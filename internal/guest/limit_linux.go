package guest

import (
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/toolroom/toolroom/bridge"
)

// limit sets the rlimits of a process that has just been started. RLIMIT_DATA
// counts private writable memory (getrlimit(2)); RLIMIT_AS would count address
// space that runtimes such as Go's and V8's only reserve.
func limit(pid int, l bridge.Limits) error {
	if l.Memory > 0 {
		if err := unix.Prlimit(pid, unix.RLIMIT_DATA, &unix.Rlimit{Cur: uint64(l.Memory), Max: uint64(l.Memory)}, nil); err != nil {
			return err
		}
	}
	if l.CPU > 0 {
		seconds := uint64(l.CPU+999) / 1000
		return unix.Prlimit(pid, unix.RLIMIT_CPU, &unix.Rlimit{Cur: seconds, Max: seconds + 1}, nil)
	}
	return nil
}

// childAttributes end a program with the guest. The caller stays on its thread,
// because Linux ends a child with the thread that started it.
func childAttributes() *syscall.SysProcAttr {
	runtime.LockOSThread()
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// peakMemory is in KiB here (getrusage(2)).
func peakMemory(r *syscall.Rusage) int64 { return r.Maxrss << 10 }
