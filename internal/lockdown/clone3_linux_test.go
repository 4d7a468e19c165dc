//go:build amd64 || arm64

package lockdown

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// groupOf makes a group of this machine in which processes can be started.
func groupOf(t *testing.T, folders cgroups) *group {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("making groups needs root")
	}
	g, err := folders.create(ownName(), Limits{})
	if err != nil {
		t.Skipf("no groups can be made here: %v", err)
	}
	t.Cleanup(g.remove)
	return g
}

// membership starts a command in g and returns the groups in which it finds itself.
func membership(t *testing.T, g *group) string {
	t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for unix.Gettid() == unix.Getpid() { // children of the first thread are moved after their start
		runtime.UnlockOSThread()
		time.Sleep(time.Millisecond)
		runtime.LockOSThread()
	}
	var out bytes.Buffer
	cmd := exec.Command("/bin/cat", "/proc/self/cgroup")
	cmd.Stdout, cmd.SysProcAttr = &out, &syscall.SysProcAttr{}
	before := ownGroups(t)
	if err := g.start(cmd); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	if after := ownGroups(t); after != before {
		t.Errorf("the thread that started the command was in\n%sand is in\n%s", before, after)
	}
	return out.String()
}

func ownGroups(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("/proc/thread-self/cgroup")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestAProcessStartsInItsGroup(t *testing.T) {
	t.Parallel()
	_, folders := probeCgroups()
	if folders == nil {
		t.Skip("no groups can be made here")
	}
	g := groupOf(t, folders)
	text := membership(t, g)
	g.each(func(dir string) {
		if !strings.Contains(text, "/"+filepath.Base(dir)+"\n") {
			t.Errorf("not in %s:\n%s", dir, text)
		}
	})
}

func TestTheProcessStaysInItsGroupsWhileItsThreadsStartOthers(t *testing.T) {
	t.Parallel()
	_, folders := probeCgroups()
	if folders == nil {
		t.Skip("no groups can be made here")
	}
	location := func() string {
		text, err := os.ReadFile("/proc/self/cgroup")
		if err != nil {
			t.Error(err)
		}
		return string(text)
	}
	before := location()
	var starters sync.WaitGroup
	for range 4 {
		g := groupOf(t, folders)
		starters.Go(func() {
			for range 50 {
				runtime.LockOSThread()
				cmd := exec.Command("/bin/true")
				cmd.SysProcAttr = &syscall.SysProcAttr{}
				if err := g.start(cmd); err != nil {
					t.Error(err)
				}
				_ = cmd.Wait()
				runtime.UnlockOSThread()
				runtime.Gosched()
			}
		})
	}
	over := make(chan struct{})
	go func() { starters.Wait(); close(over) }()
	for {
		if after := location(); after != before {
			t.Fatalf("the process was in\n%sand is in\n%s", before, after)
		}
		select {
		case <-over:
			return
		default:
		}
	}
}

func TestAProcessStartsInAGroupOfVersion2(t *testing.T) {
	t.Parallel()
	// The group has no controllers, which version 1 may hold: membership needs none.
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(ownGroups(t)) {
		group, ok := strings.CutPrefix(strings.TrimSpace(line), "0::")
		if !ok {
			continue
		}
		if mount, ok := cgroupMount(mounts, "", 2, group); ok {
			g := groupOf(t, cgroups{"pids": {2, mount}})
			if text := membership(t, g); !strings.Contains(text, "0::") || !strings.Contains(text, "/"+filepath.Base(g.folder(2))+"\n") {
				t.Errorf("not in %s:\n%s", g.folder(2), text)
			}
			return
		}
	}
	t.Skip("no tree of version 2 here")
}

func TestAProcessIsMovedIfItsStarterCouldNotReturn(t *testing.T) {
	t.Parallel()
	_, folders := probeCgroups()
	if folders == nil || folders["pids"].version != 1 {
		t.Skip("no groups of version 1 here")
	}
	g := groupOf(t, cgroups{"pids": folders["pids"]})
	// A view of the group in which its parent's tasks file is missing.
	view := t.TempDir()
	own := filepath.Join(view, filepath.Base(g.folder(1)))
	if err := os.Symlink(g.folder(1), own); err != nil {
		t.Fatal(err)
	}
	barred := &group{folders: cgroups{"pids": {1, own}}}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd := exec.Command("/bin/cat")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{}
	if err := barred.start(cmd); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(cmd.Process.Pid), "cgroup"))
	if err != nil || !strings.Contains(string(text), "/"+filepath.Base(own)+"\n") {
		t.Errorf("%v, not in its group:\n%s", err, text)
	}
	in.Close()
	_ = cmd.Wait()
}
