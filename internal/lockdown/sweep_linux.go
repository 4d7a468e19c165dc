//go:build amd64 || arm64

package lockdown

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/toolroom/toolroom/internal/proc"
)

// Sweep removes the cgroups and folders left behind by Toolroom processes that have
// ended, and returns their number. The processes in those sandboxes have ended with
// their server.
func Sweep() int {
	swept := 0
	for _, left := range Leftovers() {
		if left.Remove() == nil {
			swept++
		}
	}
	return swept
}

// Leftovers returns what [Sweep] would remove.
func Leftovers() []Leftover {
	var all []Leftover
	found, _ := findCgroups() // a controller that cannot be used cannot have leftovers
	(&group{folders: found}).each(func(dir string) {
		for _, path := range leftoverFolders(dir) {
			all = append(all, Leftover{Path: path, Cgroup: true})
		}
	})
	for _, path := range leftoverFolders(os.TempDir()) {
		all = append(all, Leftover{Path: path})
	}
	return all
}

// Remove removes the leftover, and kills the processes in it.
func (l Leftover) Remove() error {
	if !l.Cgroup {
		return os.RemoveAll(l.Path)
	}
	killCgroup(l.Path)
	removeCgroup(l.Path)
	if _, err := os.Stat(l.Path); err == nil {
		return fmt.Errorf("the cgroup %s is still in use", l.Path)
	}
	return nil
}

// leftoverFolders returns this user's folders in dir whose owner has ended.
func leftoverFolders(dir string) []string {
	entries, _ := os.ReadDir(dir) // a folder that cannot be read has none of ours
	var left []string
	for _, e := range entries {
		owner, ok := ownerOf(e.Name())
		if !ok || proc.Alive(owner) {
			continue
		}
		if info, err := e.Info(); err == nil && proc.IsOwnFolder(info) {
			left = append(left, filepath.Join(dir, e.Name()))
		}
	}
	return left
}
