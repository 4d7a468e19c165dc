package proc

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// OpenTerminal opens a pseudo-terminal of a size. What is written to ours is typed, and what
// programs print on theirs is read from ours, which has deadlines. Reading fails once nobody
// has theirs open.
func OpenTerminal(rows, columns int) (ours, theirs *os.File, err error) {
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("open a terminal: %w", err)
	}
	ours = os.NewFile(uintptr(fd), "terminal")
	err = unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: uint16(rows), Col: uint16(columns)})
	if err == nil {
		err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0)
	}
	var peer uintptr
	if err == nil {
		// By the open terminal and not by its name, which another file system may have.
		var errno syscall.Errno
		if peer, _, errno = unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.TIOCGPTPEER, unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC); errno != 0 {
			err = errno
		}
	}
	if errors.Is(err, unix.ENOTTY) { // gVisor has no such request, and one such file system
		var n, named int
		if n, err = unix.IoctlGetInt(fd, unix.TIOCGPTN); err == nil {
			named, err = unix.Open("/dev/pts/"+strconv.Itoa(n), unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
			peer = uintptr(named)
		}
	}
	if err != nil {
		ours.Close()
		return nil, nil, fmt.Errorf("open a terminal: %w", err)
	}
	return ours, os.NewFile(peer, "terminal"), nil
}

// Control makes the standard input the terminal that controls the process, whose group
// gets its Ctrl-C.
func Control(attr *syscall.SysProcAttr) {
	attr.Setpgid, attr.Setsid, attr.Setctty, attr.Ctty = false, true, true, 0
}
