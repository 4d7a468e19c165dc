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

// start starts a command whose process is in the group from its first
// instruction, which costs nothing. To move a process in later has the kernel
// wait until no processor forks: 10 to 20 ms where it has not done so lately
// (cgroup_attach_lock in its kernel/cgroup/cgroup.c); it is done where the other
// way is barred, and on the first thread: where that one is, the process is for all
// who ask, other starts that look for the place of their groups among them. The
// caller has locked its thread.
func (g *group) start(cmd *exec.Cmd) (err error) {
	defer func() {
		if err != nil && cmd.Process != nil {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
	}()
	homes, err := g.homes()
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

// homes opens the groups of version 1 that the group was made in, where this
// process is: who may not go back does not go.
func (g *group) homes() (homes []*os.File, err error) {
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

// enter puts this thread, and no other of the process, into the groups of
// version 1; its children are born there. A thread that moves itself waits for
// nobody.
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

// leave puts this thread back. One that cannot ends with its goroutine, being
// locked once more than it will be unlocked.
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

// join puts a process that runs already in.
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

// folder is the group's folder of a version, if it has one.
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

// clone3Allowed reports whether the call that starts a process in a group of
// version 2 is there: containers may refuse it. Without arguments it does nothing
// (clone3(2)).
func clone3Allowed() bool {
	_, _, errno := unix.RawSyscall(unix.SYS_CLONE3, 0, 0, 0)
	return errno == unix.EINVAL
}

func closeAll(files []*os.File) {
	for _, f := range files {
		f.Close()
	}
}
