//go:build linux && (amd64 || arm64)

package escape

import (
	"golang.org/x/sys/unix"
)

func mounts() map[string]func() error {
	return map[string]func() error{
		"mount a tmpfs":         func() error { return unix.Mount("tmpfs", "/tmp", "tmpfs", 0, "") },
		"mount a proc":          func() error { return unix.Mount("proc", "/tmp", "proc", 0, "") },
		"mount cgroups":         func() error { return unix.Mount("cgroup", "/tmp", "cgroup", 0, "memory") },
		"make root writable":    func() error { return unix.Mount("", "/", "", unix.MS_REMOUNT|unix.MS_BIND, "") },
		"make /usr writable":    func() error { return unix.Mount("", "/usr", "", unix.MS_REMOUNT|unix.MS_BIND, "") },
		"unmount /proc":         func() error { return unix.Unmount("/proc", unix.MNT_DETACH) },
		"pivot the root":        func() error { return unix.PivotRoot("/tmp", "/tmp") },
		"change the root":       func() error { return unix.Chroot("/tmp") },
		"open a mount tree":     try(unix.SYS_OPEN_TREE, ^uintptr(99), str("/"), unix.OPEN_TREE_CLONE),
		"open a file system":    try(unix.SYS_FSOPEN, str("tmpfs"), 0),
		"set mount attributes":  func() error { return unix.MountSetattr(unix.AT_FDCWD, "/", 0, &unix.MountAttr{}) },
		"move a mount":          func() error { return unix.MoveMount(unix.AT_FDCWD, "/usr", unix.AT_FDCWD, "/tmp", 0) },
		"open by handle":        try(unix.SYS_OPEN_BY_HANDLE_AT, ^uintptr(99), 0, 0),
		"ask for a file handle": try(unix.SYS_NAME_TO_HANDLE_AT, ^uintptr(99), str("/"), 0, 0, 0),
		"swap on a file":        try(unix.SYS_SWAPON, str("/tmp/x"), 0),
		"set a quota":           try(unix.SYS_QUOTACTL, 0, 0, 0, 0),
		"unshare mounts":        func() error { return unix.Unshare(unix.CLONE_NEWNS) },
	}
}
