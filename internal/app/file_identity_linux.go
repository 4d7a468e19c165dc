package app

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// fileIdentity returns a text that identifies a file or folder: another file at the same
// path has another one. If the file system does not record when a file was made, the text
// also changes when the file changes.
func fileIdentity(path string) (string, error) {
	var st unix.Statx_t
	if err := unix.Statx(unix.AT_FDCWD, path, unix.AT_SYMLINK_NOFOLLOW, unix.STATX_BASIC_STATS|unix.STATX_BTIME, &st); err != nil {
		return "", fmt.Errorf("look at %s: %w", path, err)
	}
	made := st.Btime
	if st.Mask&unix.STATX_BTIME == 0 {
		made = st.Ctime
	}
	return fmt.Sprintf("%d:%d:%d:%d.%d", st.Dev_major, st.Dev_minor, st.Ino, made.Sec, made.Nsec), nil
}
