package folder

import (
	"os"

	"golang.org/x/sys/unix"
)

// pathOnly is a flag for openBeneath: it only locates the file, for Stat.
const pathOnly = unix.O_PATH | unix.O_NOFOLLOW

// openBeneath opens the file name below the folder dir for reading. The kernel refuses a name
// that contains a link, even if others rename files meanwhile, so the file is really at the
// path real, which joins dir and name. With the flag nonBlocking it does not wait for pipes.
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
