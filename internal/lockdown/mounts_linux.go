//go:build amd64 || arm64

package lockdown

import (
	"errors"
	"fmt"
	"os"
	"path"
	"strconv"

	"golang.org/x/sys/unix"
)

// devices are what /dev holds; none of them reaches hardware or a terminal.
var devices = []string{"null", "zero", "full", "random", "urandom"}

// cloneTree makes a detached copy of the mounts at a path, without set-user-ID
// programs. It needs CAP_SYS_ADMIN in the caller's user namespace.
func cloneTree(source string, attributes uint64) (fd int, err error) {
	fd, err = unix.OpenTree(unix.AT_FDCWD, source, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE)
	if err != nil {
		return 0, fmt.Errorf("show %s: %w", source, err)
	}
	attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_NOSUID | attributes, Propagation: unix.MS_PRIVATE}
	if err := unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, &attr); err != nil {
		unix.Close(fd)
		return 0, fmt.Errorf("show %s: %w", source, err)
	}
	return fd, nil
}

func (t tree) attributes() uint64 {
	if t.Writable {
		return unix.MOUNT_ATTR_NODEV
	}
	return unix.MOUNT_ATTR_NODEV | unix.MOUNT_ATTR_RDONLY
}

// place attaches a clone at a path of the new root, and makes the path if need
// be.
func place(fd int, target string) error {
	defer unix.Close(fd)
	var stat unix.Stat_t
	if err := unix.Fstat(fd, &stat); err != nil {
		return fmt.Errorf("show %s: %w", target, err)
	}
	if _, err := os.Stat(target); err != nil {
		if err := makePlace(target, stat.Mode&unix.S_IFMT == unix.S_IFDIR); err != nil {
			return fmt.Errorf("a place for %s: %w", target, err)
		}
	}
	if err := unix.MoveMount(fd, "", unix.AT_FDCWD, target, unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_SYMLINKS); err != nil {
		return fmt.Errorf("show %s: %w", target, err)
	}
	return nil
}

func makePlace(target string, folder bool) error {
	if folder {
		return os.MkdirAll(target, 0o755)
	}
	if err := os.MkdirAll(path.Dir(target), 0o755); err != nil {
		return err
	}
	f, err := os.OpenFile(target, os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	return f.Close()
}

// buildRoot makes the root that the program sees and leaves the host's for ever.
func (p *plan) buildRoot() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	// What is on the host is opened while its paths are there.
	for i := range p.Trees {
		t := &p.Trees[i]
		if t.FD != 0 {
			continue
		}
		fd, err := cloneTree(t.Source, t.attributes())
		if err != nil {
			return err
		}
		t.FD = fd
	}
	nodes := make([]int, len(devices))
	for i, name := range devices {
		fd, err := unix.OpenTree(unix.AT_FDCWD, "/dev/"+name, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
		if err != nil {
			return fmt.Errorf("show /dev/%s: %w", name, err)
		}
		nodes[i] = fd
	}
	if err := p.enterRoot(); err != nil {
		return err
	}

	for i, name := range devices {
		if err := place(nodes[i], "/dev/"+name); err != nil {
			return err
		}
	}
	if err := mountOwn(p.Disk, p.Inodes); err != nil {
		return err
	}
	if p.Etc {
		if err := p.writeEtc(); err != nil {
			return err
		}
	}
	for _, l := range p.Links {
		if err := os.Symlink(l.Target, l.At); err != nil {
			return err
		}
	}
	for _, t := range p.Trees {
		if err := place(t.FD, t.Target); err != nil {
			return err
		}
	}
	if err := unix.Sethostname([]byte("sandbox")); err != nil {
		return fmt.Errorf("set the host name: %w", err)
	}
	readOnly := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV}
	if err := unix.MountSetattr(unix.AT_FDCWD, "/", 0, &readOnly); err != nil {
		return fmt.Errorf("make the root read-only: %w", err)
	}
	return nil
}

// enterRoot makes a small file system in memory the root, with a /proc of the
// new processes.
func (p *plan) enterRoot() error {
	const place = "/dev" // a folder that is there for certain
	if err := unix.Mount("tmpfs", place, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=0755,size=1m,nr_inodes=4096"); err != nil {
		return fmt.Errorf("mount a root: %w", err)
	}
	if err := unix.Chdir(place); err != nil {
		return fmt.Errorf("enter the root: %w", err)
	}
	// The old root comes to lie on the new one, and is taken off it:
	// pivot_root(2), NOTES.
	if err := unix.PivotRoot(".", "."); err != nil {
		return fmt.Errorf("change the root: %w", err)
	}
	if err := p.mountProc(); err != nil {
		return err
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return fmt.Errorf("leave the old root: %w", err)
	}
	if err := unix.Chdir("/"); err != nil {
		return fmt.Errorf("enter the root: %w", err)
	}
	return nil
}

// mountProc mounts a /proc that holds processes and nothing else: there is no
// sys, kcore, keys or sysrq-trigger to protect; and what the program may not
// trace, init, it does not see. The kernel lets us only while the host's /proc
// is in sight, and not where parts of that are hidden, as in most containers:
// then there is none.
func (p *plan) mountProc() error {
	if err := os.Mkdir("/proc", 0o755); err != nil {
		return err
	}
	err := unix.Mount("proc", "/proc", "proc", unix.MS_RDONLY|unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "subset=pid,hidepid=ptraceable")
	p.noProc = errors.Is(err, unix.EPERM)
	if err != nil && !p.noProc {
		return fmt.Errorf("mount /proc: %w", err)
	}
	return nil
}

// mountOwn makes what else every sandbox has of its own: one bounded file system
// in memory for all that is written.
func mountOwn(disk int64, inodes int) error {
	for _, folder := range []string{"/tmp", WorkDir, "/dev/shm"} {
		if err := os.MkdirAll(folder, 0o755); err != nil {
			return err
		}
	}
	for name, target := range map[string]string{"fd": "", "stdin": "/0", "stdout": "/1", "stderr": "/2"} {
		if err := os.Symlink("/proc/self/fd"+target, "/dev/"+name); err != nil {
			return err
		}
	}

	const store = "/tmp"
	options := "mode=0755,size=" + strconv.FormatInt(disk, 10) + ",nr_inodes=" + strconv.Itoa(inodes)
	if err := unix.Mount("tmpfs", store, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, options); err != nil {
		return fmt.Errorf("mount the work folder: %w", err)
	}
	places := []string{WorkDir, "/dev/shm", "/tmp"}
	parts := make([]int, len(places))
	for i, target := range places {
		part := path.Join(store, path.Base(target))
		if err := os.Mkdir(part, 0o700); err != nil {
			return err
		}
		fd, err := cloneTree(part, unix.MOUNT_ATTR_NODEV)
		if err != nil {
			return err
		}
		parts[i] = fd
	}
	if err := unix.Unmount(store, unix.MNT_DETACH); err != nil {
		return fmt.Errorf("mount the work folder: %w", err)
	}
	for i, target := range places {
		if err := place(parts[i], target); err != nil {
			return err
		}
	}
	return nil
}

// writeEtc writes what programs look up about users and hosts.
func (p *plan) writeEtc() error {
	if err := os.MkdirAll("/etc", 0o755); err != nil {
		return err
	}
	for name, text := range map[string]string{
		"passwd":        fmt.Sprintf("nobody:x:%d:%d:nobody:%s:/bin/sh\n", p.UID, p.GID, WorkDir),
		"group":         fmt.Sprintf("nogroup:x:%d:\n", p.GID),
		"hosts":         "127.0.0.1 localhost sandbox\n::1 localhost\n",
		"hostname":      "sandbox\n",
		"nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\n",
	} {
		if err := os.WriteFile("/etc/"+name, []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}
