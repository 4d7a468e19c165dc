//go:build amd64 || arm64

package lockdown

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"

	"golang.org/x/sys/unix"
)

// start starts cmd so that its process is in the group from its first
// instruction, which costs nothing. Moving a process in afterwards makes the
// kernel wait until no processor forks: 10 to 20 ms if it has not done so lately
// (cgroup_attach_lock in kernel/cgroup/cgroup.c). start falls back to moving if
// the direct way is not permitted, or if it runs on the process's first thread:
// /proc shows that thread's group as the group of the whole process, also to
// other starts that look up where to make their groups. The caller must have
// locked its thread.
func (g *group) start(cmd *exec.Cmd) (err error) {
	defer func() {
		if err != nil && cmd.Process != nil {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
	}()
	homes, err := g.openCurrentGroups()
	if err != nil || g.folder(2) != "" && !clone3Allowed() || unix.Gettid() == unix.Getpid() {
		closeAll(homes)
		if err := cmd.Start(); err != nil {
			return err
		}
		return g.join(cmd.Process.Pid)
	}
	if dir := g.folder(2); dir != "" {
		unified, err := os.Open(dir)
		if err != nil {
			closeAll(homes)
			return fmt.Errorf("enter the cgroup: %w", err)
		}
		defer unified.Close()
		cmd.SysProcAttr.UseCgroupFD, cmd.SysProcAttr.CgroupFD = true, int(unified.Fd())
	}
	if err = g.enter(); err == nil {
		err = cmd.Start()
	}
	return errors.Join(err, leave(homes))
}

// openCurrentGroups opens the version 1 groups that this process is in, so that the thread
// can return to them. A thread that may not return must not leave.
func (g *group) openCurrentGroups() (homes []*os.File, err error) {
	g.each(func(dir string) {
		if err == nil && g.version(dir) == 1 {
			var home *os.File
			if home, err = os.OpenFile(filepath.Join(filepath.Dir(dir), "tasks"), os.O_WRONLY, 0); err == nil {
				homes = append(homes, home)
			}
		}
	})
	return homes, err
}

// enter moves this thread, and no other thread of the process, into the version 1
// groups; its children start there. A thread that moves itself does not have to
// wait.
func (g *group) enter() error {
	var errs []error
	g.each(func(dir string) {
		if g.version(dir) == 1 {
			errs = append(errs, os.WriteFile(filepath.Join(dir, "tasks"), []byte("0"), 0))
		}
	})
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("enter the cgroup: %w", err)
	}
	return nil
}

// leave moves this thread back. If that fails, it locks the thread once more than
// the caller unlocks it, so that the thread ends with its goroutine.
func leave(homes []*os.File) error {
	defer closeAll(homes)
	var errs []error
	for _, home := range homes {
		_, err := home.WriteString("0")
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		runtime.LockOSThread()
		return fmt.Errorf("leave the cgroup: %w", err)
	}
	return nil
}

// join moves a running process into the group.
func (g *group) join(pid int) error {
	var errs []error
	g.each(func(dir string) {
		errs = append(errs, os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte(strconv.Itoa(pid)), 0))
	})
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("join the cgroup: %w", err)
	}
	return nil
}

// folder returns the group's folder of a cgroup version, or "".
func (g *group) folder(version int) string {
	for _, f := range g.folders {
		if f.version == version {
			return f.path
		}
	}
	return ""
}

func (g *group) version(dir string) int {
	for _, f := range g.folders {
		if f.path == dir {
			return f.version
		}
	}
	return 0
}

// clone3Allowed reports whether clone3, which starts a process in a version 2
// group, may be called: containers may refuse it. Without arguments clone3 does
// nothing (clone3(2)).
func clone3Allowed() bool {
	_, _, errno := unix.RawSyscall(unix.SYS_CLONE3, 0, 0, 0)
	return errno == unix.EINVAL
}

func closeAll(files []*os.File) {
	for _, f := range files {
		f.Close()
	}
}
