package guest

import (
	"os"
	"os/signal"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// adopt reaps orphans in the background if this process is their new parent.
func (c *children) adopt() {
	if os.Getpid() != 1 {
		return
	}
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGCHLD)
	go func() {
		for range ended {
			c.reap()
		}
	}()
}

// reap reaps ended processes, until it finds one that a goroutine waits for;
// [children.wait] then calls reap again.
func (c *children) reap() {
	if os.Getpid() != 1 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		// siginfo_t; package unix does not define this part of it (sigaction(2)).
		var info unix.Siginfo
		err := unix.Waitid(unix.P_ALL, 0, &info, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil)
		pid := int(*(*int32)(unsafe.Add(unsafe.Pointer(&info), pidInSiginfo)))
		if err != nil || pid == 0 || c.own[pid] {
			return
		}
		_, _ = unix.Wait4(pid, nil, unix.WNOHANG, nil)
	}
}

// pidInSiginfo is the offset of si_pid: three ints, aligned as a pointer.
const pidInSiginfo = (3*4 + unsafe.Sizeof(uintptr(0)) - 1) / unsafe.Sizeof(uintptr(0)) * unsafe.Sizeof(uintptr(0))
