//go:build amd64 || arm64

package lockdown

import (
	"fmt"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// Lock configures [LockSelf].
type Lock struct {
	// Code permits making memory executable after it has been made read-only, as a
	// compiler needs. Without it no new code can be made executable.
	Code bool
}

// workerCalls are the system calls that a Go program needs to compute and to use the
// files that it has open.
var workerCalls = []int{
	unix.SYS_READ, unix.SYS_WRITE, unix.SYS_READV, unix.SYS_WRITEV, unix.SYS_PREAD64, unix.SYS_CLOSE, unix.SYS_LSEEK,
	unix.SYS_MUNMAP, unix.SYS_MREMAP, unix.SYS_MADVISE, unix.SYS_MINCORE, unix.SYS_BRK,
	unix.SYS_FUTEX, unix.SYS_SCHED_YIELD, unix.SYS_GETTID, unix.SYS_GETPID, unix.SYS_SET_ROBUST_LIST, unix.SYS_RSEQ,
	unix.SYS_RT_SIGPROCMASK, unix.SYS_RT_SIGRETURN, unix.SYS_RT_SIGACTION, unix.SYS_SIGALTSTACK, unix.SYS_RESTART_SYSCALL,
	unix.SYS_NANOSLEEP, unix.SYS_CLOCK_NANOSLEEP, unix.SYS_CLOCK_GETTIME, unix.SYS_GETTIMEOFDAY, unix.SYS_GETRANDOM,
	unix.SYS_EPOLL_CREATE1, unix.SYS_PPOLL, unix.SYS_EPOLL_CTL, unix.SYS_EPOLL_PWAIT, unix.SYS_EVENTFD2,
	unix.SYS_EXIT, unix.SYS_EXIT_GROUP,
}

// LockSelf permanently takes from all threads of this process the system calls
// that computing does not need: it can no longer open files, connect, start
// processes or send signals. Files that are still open stay usable. A worker calls
// LockSelf once it is warm, before it reads any untrusted input.
func LockSelf(l Lock) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("sandbox: lock the worker: no_new_privs: %w", err)
	}
	if err := workerFilter(l, os.Getpid()).install(unix.SECCOMP_FILTER_FLAG_TSYNC); err != nil {
		return fmt.Errorf("sandbox: lock the worker: %w", err)
	}
	return nil
}

func workerFilter(l Lock, pid int) filter {
	f := newFilter()
	f.addCalls(allow, workerCalls)
	f.addCalls(allow, workerLegacy)
	// Threads, but no processes.
	const thread = unix.CLONE_THREAD | unix.CLONE_VM
	f.addCall(unix.SYS_CLONE, loadArg(0), and(thread), jumpEqual(thread, 0, 1), answer(allow), answer(refuse))
	f.addCall(unix.SYS_CLONE3, answer(unknown))
	// The Go runtime signals its own threads, to preempt them.
	f.addCall(unix.SYS_TGKILL, loadArg(0), jumpEqual(uint32(pid), 0, 1), answer(allow), answer(refuse))
	for _, mapper := range []int{unix.SYS_MMAP, unix.SYS_MPROTECT} {
		if l.Code { // memory is either writable or executable, never both
			const both = unix.PROT_WRITE | unix.PROT_EXEC
			f.addCall(mapper, loadArg(2), and(both), jumpEqual(both, 0, 1), answer(refuse), answer(allow))
			continue
		}
		f.addCall(mapper, loadArg(2), jumpAnyBit(unix.PROT_EXEC, 0, 1), answer(refuse), answer(allow))
	}
	return append(f, answer(refuse))
}
