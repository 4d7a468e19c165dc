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

// groupOf makes a group in which processes can be started, in folders of this
// machine.
func groupOf(t *testing.T, folders cgroups) *group {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("groups are made by root here")
	}
	g, err := folders.create(ownName(), Limits{})
	if err != nil {
		t.Skipf("no groups can be made here: %v", err)
	}
	t.Cleanup(g.remove)
	return g
}

// membership is where the command that g starts finds itself at its start.
func membership(t *testing.T, g *group) string {
	t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for unix.Gettid() == unix.Getpid() { // whose children join later
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
		t.Errorf("the thread that started it was in\n%sand is in\n%s", before, after)
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

func TestAProcessIsBornInItsGroup(t *testing.T) {
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

func TestTheProcessStaysInItsPlaceWhileItsThreadsStartOthers(t *testing.T) {
	t.Parallel()
	_, folders := probeCgroups()
	if folders == nil {
		t.Skip("no groups can be made here")
	}
	place := func() string {
		text, err := os.ReadFile("/proc/self/cgroup")
		if err != nil {
			t.Error(err)
		}
		return string(text)
	}
	before := place()
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
		if after := place(); after != before {
			t.Fatalf("it was in\n%sand is in\n%s", before, after)
		}
		select {
		case <-over:
			return
		default:
		}
	}
}

func TestAProcessIsBornInAGroupOfVersion2(t *testing.T) {
	t.Parallel()
	// Without controllers, which version 1 may have: membership needs none.
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

func TestAProcessJoinsWhereItsStarterMayNotComeBackFrom(t *testing.T) {
	t.Parallel()
	_, folders := probeCgroups()
	if folders == nil || folders["pids"].version != 1 {
		t.Skip("no groups of version 1 here")
	}
	g := groupOf(t, cgroups{"pids": folders["pids"]})
	// As seen by one whose way back is barred.
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
