package vm

import (
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// mount is a file system and its mount point.
type mount struct {
	source, target, kind string
	flags                uintptr
	data                 string
}

func (m mount) make() error {
	if err := os.MkdirAll(m.target, 0o755); err != nil {
		return err
	}
	if err := unix.Mount(m.source, m.target, m.kind, m.flags, m.data); err != nil {
		return fmt.Errorf("mount %s (%s): %w", m.target, m.kind, err)
	}
	return nil
}

const (
	// root is the programs' root: they are started with it as chroot; the first process
	// stays outside.
	root = "/root"
	// scratch contains all writable folders, so that one size limits them together.
	scratch = "/scratch"
	// quiet ignores devices and set-user-ID bits on a file system.
	quiet = unix.MS_NOSUID | unix.MS_NODEV
)

// mountRoot mounts the disk read-only, and the file systems that each program needs
// on top of it.
func mountRoot() error {
	err := await("the VM has no disk with an ext4 file system", func() error {
		return mount{"/dev/vda", root, "ext4", unix.MS_RDONLY | quiet | unix.MS_NOATIME, ""}.make()
	})
	if err != nil {
		return err
	}
	for _, m := range []mount{
		{"proc", root + "/proc", "proc", quiet | unix.MS_NOEXEC, "hidepid=invisible"},
		{"dev", root + "/dev", "tmpfs", unix.MS_NOSUID | unix.MS_NOEXEC, "mode=755,size=64k"},
		{"run", root + "/run", "tmpfs", quiet, "mode=755,size=64k"},
	} {
		if err := m.make(); err != nil {
			return err
		}
	}
	return fillRoot()
}

// masked are kernel files whose contents help attackers.
var masked = []string{"/proc/kallsyms", "/proc/kcore", "/proc/keys", "/proc/timer_list", "/proc/interrupts", "/proc/iomem", "/proc/ioports"}

// fillRoot makes the few devices that programs expect, and mounts the guest's binary.
func fillRoot() error {
	for name, minor := range map[string]uint32{"null": 3, "zero": 5, "full": 7, "random": 8, "urandom": 9} { // of major 1, null(4)
		path := root + "/dev/" + name
		if err := unix.Mknod(path, unix.S_IFCHR|0o666, int(unix.Mkdev(1, minor))); err != nil {
			return fmt.Errorf("make %s: %w", path, err)
		}
		if err := os.Chmod(path, 0o666); err != nil {
			return err
		}
	}
	for name, target := range map[string]string{"fd": "/proc/self/fd", "stdin": "/proc/self/fd/0", "stdout": "/proc/self/fd/1", "stderr": "/proc/self/fd/2"} {
		if err := os.Symlink(target, root+"/dev/"+name); err != nil {
			return err
		}
	}
	if err := os.Mkdir(root+"/dev/shm", 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(root+GuestPath, nil, 0o555); err != nil {
		return err
	}
	if err := unix.Mount("/init", root+GuestPath, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("put the guest into the root: %w", err)
	}
	for _, name := range masked {
		// A kernel built without one of these features does not have its file.
		if err := unix.Mount(root+"/dev/null", root+name, "", unix.MS_BIND, ""); err != nil && err != unix.ENOENT {
			return fmt.Errorf("mask %s: %w", name, err)
		}
	}
	for _, name := range []string{"/dev", "/run", GuestPath} {
		if err := unix.Mount("", root+name, "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY|unix.MS_NOSUID, ""); err != nil {
			return fmt.Errorf("make %s read-only: %w", name, err)
		}
	}
	return nil
}

// mountWritable mounts the writable folders, which share one size limit.
func (s Settings) mountWritable() error {
	data := "mode=755,nr_inodes=65536"
	if s.Disk > 0 {
		data += fmt.Sprintf(",size=%d", s.Disk)
	}
	if err := (mount{"scratch", scratch, "tmpfs", quiet, data}).make(); err != nil {
		return err
	}
	targets := map[string][]string{"work": {WorkDir}, "tmp": {"/tmp", "/var/tmp"}, "shm": {"/dev/shm"}}
	for name, paths := range targets {
		folder := filepath.Join(scratch, name)
		if err := os.Mkdir(folder, 0o700); err != nil {
			return err
		}
		if err := os.Chown(folder, UID, UID); err != nil {
			return err
		}
		for _, path := range paths {
			if err := unix.Mount(folder, root+path, "", unix.MS_BIND, ""); err != nil {
				return fmt.Errorf("mount %s (does the image contain it?): %w", path, err)
			}
		}
	}
	return nil
}
