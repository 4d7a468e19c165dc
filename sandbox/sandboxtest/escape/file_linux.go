//go:build linux && (amd64 || arm64)

package escape

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

func files(o Outside) map[string]func() error {
	node := func(mode uint32, device uint64) func() error {
		return func() error { return unix.Mknod("/tmp/node", mode|0o600, int(device)) }
	}
	return map[string]func() error{
		"make /dev/mem":                     node(unix.S_IFCHR, unix.Mkdev(1, 1)),
		"make a block device":               node(unix.S_IFBLK, unix.Mkdev(8, 0)),
		"make a null of one's own":          node(unix.S_IFCHR, unix.Mkdev(1, 3)),
		"make an overlay whiteout":          node(unix.S_IFCHR, 0),
		"write into /":                      create("/x"),
		"write into /usr":                   create("/usr/x"),
		"write into /etc":                   create("/etc/x"),
		"write into /dev":                   create("/dev/x"),
		"write into /proc/sys":              write("/proc/sys/kernel/core_pattern"),
		"write /proc/sysrq-trigger":         write("/proc/sysrq-trigger"),
		"read /proc/kcore":                  read("/proc/kcore"),
		"read /proc/keys":                   read("/proc/keys"),
		"read /proc/kallsyms":               read("/proc/kallsyms"),
		"read /proc/1/environ":              read("/proc/1/environ"),
		"write /proc/1/mem":                 write("/proc/1/mem"),
		"look into /proc/1/root":            see("/proc/1/root/home"),
		"look into /proc/1/fd":              list("/proc/1/fd"),
		"write /sys":                        write("/sys/kernel/uevent_helper"),
		"see a cgroup tree":                 list("/sys/fs/cgroup"),
		"read /etc/shadow":                  read("/etc/shadow"),
		"see /root":                         list("/root"),
		"see /home":                         list("/home"),
		"see /var":                          list("/var"),
		"read a secret of the host machine": read(o.Secret),
		"read it by a symbolic link": func() error {
			_ = os.Symlink(o.Secret, "/tmp/link")
			return read("/tmp/link")()
		},
		"read it by a hard link":    func() error { return os.Link(o.Secret, "/tmp/hard") },
		"read the server's environ": read(fmt.Sprintf("/proc/%d/environ", o.Server)),
		"read the parent's environ": read(fmt.Sprintf("/proc/%d/environ", os.Getppid())),
		"find a secret in the environment": func() error {
			if strings.Contains(strings.Join(os.Environ(), " "), Word) {
				return nil
			}
			return errors.New("not there")
		},
		"find an open file of the server": func() error {
			for fd := 3; fd < 1024; fd++ {
				target, err := os.Readlink("/proc/self/fd/" + strconv.Itoa(fd))
				if err == nil && !strings.HasPrefix(target, "anon_inode:") && !strings.HasPrefix(target, "/proc/") &&
					!strings.HasPrefix(target, "/sys/fs/cgroup/") { // opened by Go itself, for the CPU quota
					return nil
				}
				buffer := make([]byte, 1<<16)
				if n, _ := unix.Pread(fd, buffer, 0); strings.Contains(string(buffer[:max(n, 0)]), Word) {
					return nil
				}
			}
			return errors.New("none")
		},
	}
}

func devices() map[string]func() error {
	list := map[string]func() error{}
	for _, device := range []string{"mem", "kmsg", "kvm", "tty", "console", "sda", "vda", "fuse", "net/tun", "loop-control", "port", "ptmx", "userfaultfd"} {
		list["open /dev/"+device] = func() error {
			f, err := os.OpenFile("/dev/"+device, os.O_RDWR, 0)
			if err == nil {
				f.Close()
			}
			return err
		}
	}
	return list
}

// races repeatedly replaces a folder by a link while it is used, which exploits code that
// checks a path before using it.
func races(o Outside) map[string]func() error {
	return map[string]func() error{
		"race a link in the work folder": func() error {
			work, err := os.MkdirTemp("", "race-")
			if err != nil {
				if work, err = os.MkdirTemp(".", "race-"); err != nil {
					return err
				}
			}
			defer os.RemoveAll(work)
			name, target := filepath.Join(work, "x"), filepath.Dir(o.Secret)
			stop := make(chan struct{})
			var swapping sync.WaitGroup
			swapping.Go(func() {
				for {
					select {
					case <-stop:
						return
					default:
						_ = os.Mkdir(name, 0o755)
						_ = os.RemoveAll(name)
						_ = os.Symlink(target, name)
						_ = os.Remove(name)
					}
				}
			})
			defer swapping.Wait()
			defer close(stop)
			for range 500 {
				text, _ := os.ReadFile(filepath.Join(name, filepath.Base(o.Secret)))
				if strings.Contains(string(text), Word) {
					return nil
				}
				// The test outside checks whether this file ends up there.
				_ = os.WriteFile(filepath.Join(name, "written-from-inside"), []byte(Word), 0o644)
			}
			return errors.New("the path never led outside")
		},
		"climb out of a moved folder": func() error {
			work, err := os.MkdirTemp(".", "climb-")
			if err != nil {
				return err
			}
			defer os.RemoveAll(work)
			deep := filepath.Join(work, "a", "b")
			if err := os.MkdirAll(deep, 0o755); err != nil {
				return err
			}
			dir, err := os.Open(deep)
			if err != nil {
				return err
			}
			defer dir.Close()
			if err := os.Rename(deep, filepath.Join(work, "c")); err != nil {
				return err
			}
			up := strings.Repeat("../", 32) + strings.TrimPrefix(o.Secret, "/")
			fd, err := unix.Openat(int(dir.Fd()), up, unix.O_RDONLY, 0)
			if err != nil {
				return err
			}
			return unix.Close(fd)
		},
	}
}
