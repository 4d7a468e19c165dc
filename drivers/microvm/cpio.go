package microvm

import (
	"fmt"
	"io"
)

// archive writes an initial file system in cpio's "newc" format (the kernel's
// Documentation/driver-api/early-userspace/buffer-format.rst). A file may contain
// several archives, one after another.
type archive struct {
	w     io.Writer
	inode int
	err   error
}

const (
	cpioFolder = 0o040755
	cpioFile   = 0o100755
)

func (a *archive) folder(name string) { a.add(name, cpioFolder, nil) }

func (a *archive) file(name string, data []byte) { a.add(name, cpioFile, data) }

func (a *archive) add(name string, mode int, data []byte) {
	a.inode++
	head := fmt.Sprintf("070701%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x",
		a.inode, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(name)+1, 0) + name + "\x00"
	a.write([]byte(head), data)
}

// write writes the parts, each padded to 4 bytes.
func (a *archive) write(parts ...[]byte) {
	for _, part := range parts {
		padding := make([]byte, (4-len(part)%4)%4)
		for _, b := range [][]byte{part, padding} {
			if a.err == nil {
				_, a.err = a.w.Write(b)
			}
		}
	}
}

func (a *archive) close() error {
	a.inode = -1
	a.add("TRAILER!!!", 0, nil)
	return a.err
}
