package folder

import (
	"os"

	"golang.org/x/sys/unix"
)

// pathOnly is a flag of openBeneath: the file is found and not opened, to ask about it.
const pathOnly = unix.O_PATH | unix.O_NOFOLLOW

// openBeneath opens what is at name below the folder dir, for reading. The kernel refuses a name
// that has a link in it, whatever others rename meanwhile, so that the file is at the path real,
// which is that of dir and name. With the flag nonBlocking it does not wait for pipes.
func openBeneath(dir *os.File, name, real string, flags uint64) (*os.File, error) {
	how := &unix.OpenHow{
		Flags:   unix.O_RDONLY | unix.O_CLOEXEC | flags,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS,
	}
	for {
		fd, err := unix.Openat2(int(dir.Fd()), name, how)
		switch err {
		case nil:
			return os.NewFile(uintptr(fd), real), nil
		case unix.EINTR:
		default:
			return nil, &os.PathError{Op: "open", Path: real, Err: err}
		}
	}
}
