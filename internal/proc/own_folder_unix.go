//go:build unix

package proc

import (
	"io/fs"
	"os"
	"syscall"
)

// IsOwnFolder reports whether info, from [os.Lstat], describes a folder that this user has made
// and that no other user may write to. In a folder that others can write to, a name proves
// nothing: only such a folder may be believed or removed.
func IsOwnFolder(info fs.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && info.IsDir() && info.Mode().Perm()&0o022 == 0 && stat.Uid == uint32(os.Geteuid())
}
