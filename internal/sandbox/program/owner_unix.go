//go:build unix

package program

import (
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// newProcessGroup starts the program in a process group of its own.
func newProcessGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// checkOwner returns an error if a folder belongs to another user.
func checkOwner(info fs.FileInfo) error {
	if s, ok := info.Sys().(*syscall.Stat_t); ok && int(s.Uid) != os.Getuid() {
		return fmt.Errorf("%s belongs to user %d", info.Name(), s.Uid)
	}
	return nil
}
