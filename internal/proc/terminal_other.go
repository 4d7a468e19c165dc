//go:build !linux

package proc

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// OpenTerminal opens a pseudo-terminal, which is only done on Linux.
func OpenTerminal(int, int) (ours, theirs *os.File, err error) {
	return nil, nil, fmt.Errorf("open a terminal: %w", errors.ErrUnsupported)
}

func Control(*syscall.SysProcAttr) {}
