//go:build unix

package worker

import (
	"os"
	"syscall"
)

// polled makes a file one whose reader waits without holding a thread: what it
// has read is then dealt with at once, on the thread that it was read on.
func polled(file *os.File) (*os.File, error) {
	fd := int(file.Fd())
	if err := syscall.SetNonblock(fd, true); err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), file.Name()), nil
}
