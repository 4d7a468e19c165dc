//go:build amd64 || arm64

package lockdown

import (
	"fmt"
	"os"
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// script is a list of system calls, prepared in memory: between fork and exec a
// child of a Go program may only make system calls, and run no Go code that
// allocates, grows its stack or is scheduled.
type script struct {
	calls []call
	names []string
	keep  []any // what the arguments point to
}

type call struct {
	nr   uintptr
	args [5]uintptr
	must bool // a failure ends the child
}

func (s *script) add(name string, nr uintptr, args ...uintptr) { s.append(name, true, nr, args...) }

// try adds a call whose failure is ignored.
func (s *script) try(name string, nr uintptr, args ...uintptr) { s.append(name, false, nr, args...) }

func (s *script) append(name string, must bool, nr uintptr, args ...uintptr) {
	c := call{nr: nr, must: must}
	copy(c.args[:], args)
	s.calls = append(s.calls, c)
	s.names = append(s.names, name)
}

// pointer returns the address of v and keeps v alive as long as the script.
func pointer[T any](s *script, v *T) uintptr {
	s.keep = append(s.keep, v)
	return uintptr(unsafe.Pointer(v))
}

// cString returns the address of t as a C string.
func (s *script) cString(t string) uintptr {
	b := append([]byte(t), 0)
	return pointer(s, &b[0])
}

// cStrings returns the address of list as a vector of C strings, as execve expects.
func (s *script) cStrings(list []string) uintptr {
	vector := make([]uintptr, len(list)+1)
	for i, t := range list {
		vector[i] = s.cString(t)
	}
	return pointer(s, &vector[0])
}

// failure is what a child reports before it exits: the call that failed, and how.
type failure struct {
	index int32
	errno int32
}

func (s *script) errorOf(f failure) error {
	return &os.SyscallError{Syscall: s.names[f.index], Err: syscall.Errno(f.errno)}
}

// runCalls makes the calls. It returns only if one fails.
//
//go:nosplit
//go:norace
func runCalls(calls []call) failure {
	for i := range calls {
		c := &calls[i]
		_, _, errno := syscall.RawSyscall6(c.nr, c.args[0], c.args[1], c.args[2], c.args[3], c.args[4], 0)
		if errno != 0 && c.must {
			return failure{int32(i), int32(errno)}
		}
	}
	return failure{int32(len(calls)) - 1, int32(syscall.ENOSYS)}
}

// exec runs the script in this process, which the last call replaces. It returns
// only if a call fails.
func (s *script) exec() error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	f := runCalls(s.calls)
	runtime.KeepAlive(s)
	return s.errorOf(f)
}

// fork runs the script in a child process and returns when the child has executed
// its program. The child shares no memory with this process.
func (s *script) fork() (pid int, err error) {
	var pipe [2]int
	if err := unix.Pipe2(pipe[:], unix.O_CLOEXEC); err != nil {
		return 0, fmt.Errorf("pipe: %w", err)
	}
	defer unix.Close(pipe[0])

	runtime.LockOSThread()
	child, errno := forkAndRun(s.calls, uintptr(pipe[1]))
	runtime.UnlockOSThread()
	runtime.KeepAlive(s)
	unix.Close(pipe[1])
	if errno != 0 {
		return 0, os.NewSyscallError("clone", errno)
	}

	var f failure
	answer := unsafe.Slice((*byte)(unsafe.Pointer(&f)), unsafe.Sizeof(f))
	for {
		n, err := unix.Read(pipe[0], answer)
		switch {
		case err == unix.EINTR:
		case err != nil:
			return 0, os.NewSyscallError("read", err)
		case n == 0:
			return int(child), nil
		default:
			return 0, s.errorOf(f)
		}
	}
}

// forkAndRun blocks all signals around the fork, so that no signal handler of the
// Go runtime runs in the child; the script must unblock them.
//
//go:nosplit
//go:norace
func forkAndRun(calls []call, report uintptr) (pid uintptr, errno syscall.Errno) {
	all, old := ^uint64(0), uint64(0)
	syscall.RawSyscall6(unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, uintptr(unsafe.Pointer(&all)), uintptr(unsafe.Pointer(&old)), 8, 0, 0)
	pid, _, errno = syscall.RawSyscall6(unix.SYS_CLONE, uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0)
	if pid != 0 || errno != 0 {
		syscall.RawSyscall6(unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, uintptr(unsafe.Pointer(&old)), 0, 8, 0, 0)
		return pid, errno
	}
	f := runCalls(calls)
	syscall.RawSyscall(unix.SYS_WRITE, report, uintptr(unsafe.Pointer(&f)), unsafe.Sizeof(f))
	for {
		syscall.RawSyscall(unix.SYS_EXIT_GROUP, 127, 0, 0)
	}
}
