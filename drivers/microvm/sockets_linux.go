package microvm

import (
	"os"

	"golang.org/x/sys/unix"
)

// rights returns the control message that passes an open file to the reader.
func rights(f *os.File) []byte { return unix.UnixRights(int(f.Fd())) }
