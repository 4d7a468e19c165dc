package program

import (
	"io/fs"
	"syscall"
)

// ownGroup starts the program in a process group of its own.
func ownGroup() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP}
}

// owned returns nil on this system.
func owned(fs.FileInfo) error { return nil }
