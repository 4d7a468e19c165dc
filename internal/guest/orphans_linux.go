package guest

import (
	"os"
	"os/signal"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// adopt takes in orphans until the process ends, if they come here.
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

// reap takes in what has ended, up to one that somebody waits for, who then
// calls this again.
func (c *children) reap() {
	if os.Getpid() != 1 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		// siginfo_t, of which package unix does not know this part (sigaction(2)).
		var info unix.Siginfo
		err := unix.Waitid(unix.P_ALL, 0, &info, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil)
		pid := int(*(*int32)(unsafe.Add(unsafe.Pointer(&info), pidInSiginfo)))
		if err != nil || pid == 0 || c.own[pid] {
			return
		}
		_, _ = unix.Wait4(pid, nil, unix.WNOHANG, nil)
	}
}

// pidInSiginfo is where si_pid is: after three numbers, aligned as a pointer is.
const pidInSiginfo = (3*4 + unsafe.Sizeof(uintptr(0)) - 1) / unsafe.Sizeof(uintptr(0)) * unsafe.Sizeof(uintptr(0))
