//go:build !unix

package proc

import "io/fs"

// Ours reports whether info, from [os.Lstat], describes a folder. Temporary folders belong
// to one user on this system.
func Ours(info fs.FileInfo) bool { return info.IsDir() }
