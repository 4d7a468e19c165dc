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

// devices are the devices in /dev; none of them reaches hardware or a terminal.
var devices = []string{"null", "zero", "full", "random", "urandom"}

// cloneTree returns a detached copy of the mounts at source, on which set-user-ID
// bits have no effect. It needs CAP_SYS_ADMIN in the caller's user namespace.
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

// attach mounts a clone at a path of the new root, making the path if necessary.
func attach(fd int, target string) error {
	defer unix.Close(fd)
	var stat unix.Stat_t
	if err := unix.Fstat(fd, &stat); err != nil {
		return fmt.Errorf("show %s: %w", target, err)
	}
	if _, err := os.Stat(target); err != nil {
		if err := makeMountPoint(target, stat.Mode&unix.S_IFMT == unix.S_IFDIR); err != nil {
			return fmt.Errorf("make a mount point for %s: %w", target, err)
		}
	}
	if err := unix.MoveMount(fd, "", unix.AT_FDCWD, target, unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_SYMLINKS); err != nil {
		return fmt.Errorf("show %s: %w", target, err)
	}
	return nil
}

func makeMountPoint(target string, folder bool) error {
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

// buildRoot builds the root that the program sees and leaves the host machine's
// root for good.
func (p *plan) buildRoot() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	// Open the trees while the host machine's paths are still visible.
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
		if err := attach(nodes[i], "/dev/"+name); err != nil {
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
		if err := attach(t.FD, t.Target); err != nil {
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

// enterRoot makes a small in-memory file system the root, with a /proc of the new
// PID namespace.
func (p *plan) enterRoot() error {
	const dir = "/dev" // a folder that always exists
	if err := unix.Mount("tmpfs", dir, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=0755,size=1m,nr_inodes=4096"); err != nil {
		return fmt.Errorf("mount a root: %w", err)
	}
	if err := unix.Chdir(dir); err != nil {
		return fmt.Errorf("enter the root: %w", err)
	}
	// The old root ends up mounted on top of the new one and is unmounted:
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

// mountProc mounts a /proc that contains processes and nothing else: there is no
// sys, kcore, keys or sysrq-trigger to protect, and the program does not see init,
// which it may not trace. The kernel permits the mount only while the host
// machine's /proc is visible, and not if parts of that are hidden, as in most
// containers; then the sandbox has no /proc.
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

// mountOwn makes the other folders of which every sandbox has its own, on one
// in-memory file system of limited size.
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
	targets := []string{WorkDir, "/dev/shm", "/tmp"}
	parts := make([]int, len(targets))
	for i, target := range targets {
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
	for i, target := range targets {
		if err := attach(parts[i], target); err != nil {
			return err
		}
	}
	return nil
}

// writeEtc writes the files in which programs look up users and hosts.
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
