//go:build amd64 || arm64

package lockdown

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/toolroom/toolroom/internal/proc"
)

// deadOwner returns the owner name of a process that has ended.
func deadOwner(t *testing.T) string {
	t.Helper()
	cmd := exec.Command("/bin/sleep", "1000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	pid := cmd.Process.Pid
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	return strings.Replace(proc.Owner(), strings.SplitN(proc.Owner(), "-", 2)[0], strconv.Itoa(pid), 1)
}

func TestOnlyLeftoversOfEndedProcessesAreSwept(t *testing.T) {
	var h HostMachine
	dead, living := ownerPrefix+deadOwner(t)+"-1", ownerPrefix+proc.Owner()+"-999999"
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	folders := []string{tmp}
	if f := h.Probe(t.Context()).Find(Cgroup); f.Available {
		folders = append(folders, h.machine().cgroups["pids"].path)
	}
	for _, folder := range folders {
		for _, name := range []string{dead, living, "other", ownerPrefix, ownerPrefix + "x"} {
			dir := filepath.Join(folder, name)
			if err := os.Mkdir(dir, 0o755); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { os.Remove(dir) })
		}
	}
	// A process is left in the group.
	sleep := exec.Command("/bin/sleep", "1000")
	if err := sleep.Start(); err != nil {
		t.Fatal(err)
	}
	defer sleep.Process.Kill()
	if len(folders) > 1 {
		if err := os.WriteFile(filepath.Join(folders[1], dead, "cgroup.procs"), []byte(strconv.Itoa(sleep.Process.Pid)), 0); err != nil {
			t.Fatal(err)
		}
		go sleep.Wait()
	}
	if swept := Sweep(); swept < len(folders) {
		t.Errorf("%d swept", swept)
	}
	for _, folder := range folders {
		if _, err := os.Stat(filepath.Join(folder, dead)); err == nil {
			t.Errorf("%s of an ended process is left in %s", dead, folder)
		}
		for _, name := range []string{living, "other", ownerPrefix} {
			if _, err := os.Stat(filepath.Join(folder, name)); err != nil {
				t.Errorf("%s is gone: %v", name, err)
			}
		}
	}
}
