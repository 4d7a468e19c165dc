//go:build unix

package program

import (
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// ownGroup starts the program in a process group of its own.
func ownGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// owned returns an error if a folder belongs to another user.
func owned(info fs.FileInfo) error {
	if s, ok := info.Sys().(*syscall.Stat_t); ok && int(s.Uid) != os.Getuid() {
		return fmt.Errorf("%s belongs to user %d", info.Name(), s.Uid)
	}
	return nil
}
