//go:build amd64 || arm64

package lockdown

import (
	"os"
	"path/filepath"

	"github.com/toolroom/toolroom/internal/proc"
)

// Sweep removes the cgroups and folders that a Toolroom process which no longer
// runs has left behind, and returns how many there were. The processes of its
// sandboxes have ended with it.
func Sweep() int {
	swept := 0
	found, _ := findCgroups() // those that are there are those that can hold something
	(&group{folders: found}).each(func(dir string) {
		for _, left := range leftOver(dir) {
			killCgroup(left)
			removeCgroup(left)
			swept++
		}
	})
	for _, left := range leftOver(os.TempDir()) {
		if os.RemoveAll(left) == nil {
			swept++
		}
	}
	return swept
}

// leftOver are the folders in dir whose owner has ended.
func leftOver(dir string) []string {
	var left []string
	paths, _ := filepath.Glob(filepath.Join(dir, ownerPrefix+"*"))
	for _, path := range paths {
		if owner, ok := ownerOf(filepath.Base(path)); ok && !proc.Alive(owner) {
			left = append(left, path)
		}
	}
	return left
}
