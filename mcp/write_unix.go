//go:build unix

package mcp

import (
	"errors"
	"io"
	"syscall"
)

// nonblockingWriter returns a function that writes as much to a pipe as it accepts without
// blocking. For other writers the function writes nothing.
func nonblockingWriter(out io.Writer) func([]byte) (int, error) {
	file, ok := out.(syscall.Conn)
	if !ok {
		return func([]byte) (int, error) { return 0, nil }
	}
	raw, err := file.SyscallConn()
	if err != nil {
		return func([]byte) (int, error) { return 0, err }
	}
	return func(p []byte) (n int, err error) {
		closed := raw.Write(func(fd uintptr) bool {
			n, err = syscall.Write(int(fd), p)
			return true
		})
		if errors.Is(err, syscall.EAGAIN) || errors.Is(err, syscall.EINTR) {
			err = nil
		}
		return max(n, 0), errors.Join(closed, err)
	}
}
