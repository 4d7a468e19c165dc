//go:build integration

package runtimes

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/toolroom/toolroom/drivers/containerd"
	"github.com/toolroom/toolroom/drivers/docker"
	"github.com/toolroom/toolroom/drivers/gvisor"
	"github.com/toolroom/toolroom/internal/proc"
	"github.com/toolroom/toolroom/internal/sandbox/host"
	"github.com/toolroom/toolroom/internal/sandbox/process"
	"github.com/toolroom/toolroom/sandbox"
)

// victimEnv is the environment variable that makes this binary a Toolroom that is killed
// during a run.
const victimEnv = "TOOLROOM_TEST_VICTIM"

// victim is the configuration of its run.
type victim struct {
	Driver, Address, Runtime, Folder, Guest string
	Umask                                   int
}

func (v victim) driver() sandbox.Driver {
	switch v.Driver {
	case "docker":
		return docker.New(docker.Options{Host: v.Address, Runtime: v.Runtime})
	case "containerd":
		return containerd.New(containerd.Options{Address: v.Address, Runtime: v.Runtime})
	case "gvisor":
		return gvisor.New(gvisor.Options{Work: v.Folder})
	case "process":
		return process.New(v.Guest, nil)
	default:
		return &host.Driver{Work: v.Folder, Owner: proc.Owner(), Environ: os.Environ()}
	}
}

// live starts a guest, reports it, and waits for its end.
func (v victim) live() error {
	syscall.Umask(v.Umask)
	instance, err := v.driver().Start(context.Background(), sandbox.Spec{
		Run: "victim", Profile: sandbox.Standard, Guest: v.Guest, Limits: sandbox.Limits{Memory: 256 << 20, PIDs: 128}, BestEffort: true, // gVisor counts no threads that sleep
	})
	if err != nil {
		return err
	}
	if _, err := io.ReadFull(instance.Stream(), make([]byte, 4)); err != nil {
		return err
	}
	fmt.Println("it runs")
	select {}
}

// kill runs a victim in a process of its own and kills the process.
func (v victim) kill(t *testing.T) (owner string) {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), victimEnv+"="+string(text))
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, _ := bufio.NewReader(out).ReadString('\n')
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	if line != "it runs\n" {
		t.Fatalf("the victim said %q", line)
	}
	return fmt.Sprint(cmd.Process.Pid)
}

// traces returns the processes, cgroups and folders that have the victim's mark.
func traces(t *testing.T, pid string, folders ...string) []string {
	t.Helper()
	var left []string
	for _, pattern := range append(folders, os.TempDir(), "/sys/fs/cgroup", "/sys/fs/cgroup/*", "/sys/fs/cgroup/*/*") {
		found, err := filepath.Glob(filepath.Join(pattern, "toolroom-*-"+pid+"-*"))
		if err != nil {
			t.Fatal(err)
		}
		left = append(left, found...)
	}
	environs, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, path := range environs {
		if text, err := os.ReadFile(path); err == nil && strings.Contains(string(text), "TOOLROOM_OWNER="+pid+"-") {
			left = append(left, path)
		}
	}
	return left
}

func TestNothingIsLeftOfAKilledToolroomAfterItsDriverHasCleaned(t *testing.T) {
	for _, name := range []string{"docker/runc", "docker/runsc", "containerd/runc", "containerd/runsc", "gvisor", "process", "host"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			driver, runtime, _ := strings.Cut(name, "/")
			// Nothing may depend on a umask that lets other users in.
			v := victim{Driver: driver, Runtime: runtime, Folder: folder(t), Guest: made.guest, Umask: 0o077}
			listed := func() []string { return nil }
			switch driver {
			case "docker":
				_, v.Address = dockerDriver(t, docker.Options{})
				listed = func() []string { return containers(t, v.Address) }
			case "containerd":
				v.Address = containerdEngine(t)
				containerdDriver(t, containerd.Options{Address: v.Address})
				listed = func() []string { return containerdLeftovers(t, v.Address) }
			}
			pid := v.kill(t)
			cleaner := v.driver().(sandbox.Cleaner)
			before := append(listed(), traces(t, pid, v.Folder)...)
			if len(before) == 0 {
				t.Fatal("nothing was left to be cleaned")
			}
			dry, err := cleaner.Clean(t.Context(), true)
			if err != nil || len(dry) == 0 {
				t.Fatalf("of %v a dry run lists %v, %v", before, dry, err)
			}
			cleaned, err := cleaner.Clean(t.Context(), false)
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range cleaned {
				if c.Error != "" {
					t.Errorf("%+v", c)
				}
			}
			// Orphaned processes soon end by themselves.
			var left []string
			for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
				if left = append(listed(), traces(t, pid, v.Folder)...); len(left) == 0 {
					return
				}
			}
			t.Errorf("of %v there is left %v; removed were %+v", before, left, cleaned)
		})
	}
}
