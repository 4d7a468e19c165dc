//go:build linux || darwin

package sqlite

import (
	"math"
	"syscall"
)

// freeSpace returns the number of bytes that this user may still write in a folder.
func freeSpace(folder string) (int64, error) {
	var fs syscall.Statfs_t
	if err := syscall.Statfs(folder, &fs); err != nil {
		return 0, err
	}
	size := uint64(fs.Bsize)
	if size > 0 && fs.Bavail > math.MaxInt64/size {
		return math.MaxInt64, nil
	}
	return int64(fs.Bavail * size), nil
}
