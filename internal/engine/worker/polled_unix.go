//go:build unix

package worker

import (
	"os"
	"syscall"
)

// polled returns file with a reader that waits without blocking a thread. The data
// is then handled at once, on the thread that read it.
func polled(file *os.File) (*os.File, error) {
	fd := int(file.Fd())
	if err := syscall.SetNonblock(fd, true); err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), file.Name()), nil
}
