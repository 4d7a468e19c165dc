//go:build !unix

package proc

import "io/fs"

// IsOwnFolder reports whether info, from [os.Lstat], describes a folder. Temporary folders belong
// to one user on this system.
func IsOwnFolder(info fs.FileInfo) bool { return info.IsDir() }
