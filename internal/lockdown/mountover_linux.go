//go:build amd64 || arm64

package lockdown

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// mountOver mounts the binds over what is there, in order, in this process's own mount
// namespace, and enters its working folder anew. Device nodes stay usable. A bind of "/"
// must be read-only, and makes the root itself so, without what is mounted on it.
//
// The process must give up CAP_SYS_ADMIN afterwards. In a user namespace within this one,
// the kernel keeps these mounts together, so that nobody can take one away.
func mountOver(binds []Bind) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	dir, err := os.Getwd()
	if err != nil {
		return err
	}
	// Open all while none hides another.
	opened := make([]int, len(binds))
	for i, b := range binds {
		if b.Target == "/" {
			continue
		}
		attributes := uint64(unix.MOUNT_ATTR_RDONLY)
		if b.Writable {
			attributes = 0
		}
		if opened[i], err = cloneTree(b.Source, attributes); err != nil {
			return err
		}
	}
	for i, b := range binds {
		if b.Target == "/" {
			if err := unix.MountSetattr(unix.AT_FDCWD, "/", 0, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}); err != nil {
				return fmt.Errorf("make / read-only: %w", err)
			}
			continue
		}
		if err := attach(opened[i], b.Target); err != nil {
			return err
		}
	}
	// The process still stands in the folder below the mounts.
	if err := os.Chdir(dir); err != nil {
		return fmt.Errorf("enter the working folder: %w", err)
	}
	return nil
}
