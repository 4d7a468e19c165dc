//go:build amd64 || arm64

package lockdown

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/toolroom/toolroom/internal/proc"
)

// Sweep removes the cgroups and folders that a Toolroom process which no longer
// runs has left behind, and returns how many there were. The processes of its
// sandboxes have ended with it.
func Sweep() int {
	swept := 0
	for _, left := range Leftovers() {
		if left.Remove() == nil {
			swept++
		}
	}
	return swept
}

// Leftovers are what [Sweep] would remove.
func Leftovers() []Leftover {
	var all []Leftover
	found, _ := findCgroups() // those that are there are those that can hold something
	(&group{folders: found}).each(func(dir string) {
		for _, path := range leftOver(dir) {
			all = append(all, Leftover{Path: path, Cgroup: true})
		}
	})
	for _, path := range leftOver(os.TempDir()) {
		all = append(all, Leftover{Path: path})
	}
	return all
}

// Remove removes it, and ends the processes that are in it.
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
