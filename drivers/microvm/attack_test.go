//go:build integration && linux

package microvm_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/bridge"
	"github.com/toolroom/toolroom/internal/engine"
	"github.com/toolroom/toolroom/internal/engine/hosted"
	"github.com/toolroom/toolroom/sandbox"
	"github.com/toolroom/toolroom/sandbox/sandboxtest"
)

// hostile builds a static guest that breaks the rules, once.
var hostile = sync.OnceValues(func() (string, error) {
	folder, err := os.MkdirTemp("", "toolroom-hostile-")
	if err != nil {
		return "", err
	}
	path := filepath.Join(folder, "hostile")
	build := exec.Command("go", "build", "-o", path, "./testdata/hostile")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	build.Stderr = os.Stderr
	return path, build.Run()
})

// silent is a call handler for programs that call no tools; it ignores their output.
type silent struct{ bridge.Handler }

func (silent) Print(string, string) {}

func TestAProgramCannotReachTheHostMachine(t *testing.T) {
	d := newDriver(t, image(t))
	path, _ := guest()
	sandboxtest.Escape(t, sandboxtest.Options{New: func(*testing.T) sandbox.Driver { return d }, Guest: path}, map[string]string{
		"see /var": "the image's own folder, which contains nothing of the host machine",
	})
}

func TestAGuestThatBreaksTheRulesEndsItsOwnRunOnly(t *testing.T) {
	d := newDriver(t, image(t))
	path, _ := guest()
	sandboxtest.Rogue(t, sandboxtest.Options{New: func(*testing.T) sandbox.Driver { return d }, Guest: path, Leftovers: monitors})
}

func TestAVMThatNeverComesUpIsGivenUp(t *testing.T) {
	folder := image(t)
	path, err := hostile()
	if err != nil {
		t.Fatal(err)
	}
	d := newDriver(t, folder)
	if p := d.Probe(t.Context()); p.State != sandbox.Available {
		t.Fatal(p.Reason)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	_, err = d.Start(ctx, sandbox.Spec{Guest: path, Args: []string{"never"}})
	if e := toolroom.AsError(err); e == nil || e.Code != toolroom.CodeSandboxUnavailable || !strings.Contains(e.Message, "did not come up in time") || !strings.Contains(e.Hints(), "setup microvm") {
		t.Errorf("got %+v", e)
	}
	if left := monitors(t); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	if making, _ := filepath.Glob(filepath.Join(folder, "snapshots", ".making-*")); len(making) > 0 {
		t.Errorf("left behind: %v", making)
	}
}

func TestADamagedKernelIsReported(t *testing.T) {
	made, folder := image(t), t.TempDir()
	for _, name := range []string{"modules.cpio", "root.ext4", "image.json"} {
		if err := os.Symlink(filepath.Join(made, name), filepath.Join(folder, name)); err != nil {
			t.Fatal(err)
		}
	}
	kernel, err := os.ReadFile(filepath.Join(made, "vmlinux"))
	if err != nil {
		t.Fatal(err)
	}
	clear(kernel[1<<20:])
	if err := os.WriteFile(filepath.Join(folder, "vmlinux"), kernel, 0o644); err != nil {
		t.Fatal(err)
	}
	p := newDriver(t, folder).Probe(t.Context())
	if p.State == sandbox.Available || !strings.Contains(p.Reason, "its kernel is damaged") || !strings.Contains(p.Fix, "setup microvm") {
		t.Errorf("got %+v", p)
	}
	if left := monitors(t); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestAFullDiskIsReportedAndTheNextStartSucceedsOnceThereIsSpace(t *testing.T) {
	disk := t.TempDir()
	const size = 128 << 20 // enough for the guest's initial file system, but not for a snapshot
	if err := syscall.Mount("tmpfs", disk, "tmpfs", 0, fmt.Sprintf("mode=755,size=%d", size)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(disk, 0); err != nil {
			t.Error(err)
		}
	})
	for _, name := range []string{"vmlinux", "modules.cpio", "root.ext4", "image.json"} {
		if err := os.Symlink(filepath.Join(image(t), name), filepath.Join(disk, name)); err != nil {
			t.Fatal(err)
		}
	}
	filler := filepath.Join(disk, "filler")
	if err := os.WriteFile(filler, make([]byte, size-8<<10), 0o600); err != nil {
		t.Fatal(err)
	}
	d := newDriver(t, disk)
	if p := d.Probe(t.Context()); p.State != sandbox.Unsupported || !strings.Contains(p.Reason, "no space left") || p.Fix != "free disk space in "+disk {
		t.Errorf("the probe said %+v", p)
	}
	_, err := d.Start(t.Context(), sandbox.Spec{Guest: must(guest())})
	if e := toolroom.AsError(err); e == nil || e.Code != toolroom.CodeSandboxUnavailable || !strings.Contains(e.Message, "no space left") || e.Hints() != "free disk space in "+disk {
		t.Errorf("got %+v", e)
	}
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	// A snapshot may still not fit, and is not required.
	instance, err := d.Start(t.Context(), sandbox.Spec{Guest: must(guest())})
	if err != nil {
		t.Fatal(err)
	}
	if err := instance.Kill(t.Context()); err != nil {
		t.Error(err)
	}
	if left := monitors(t); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestTheExitOfAGuestIsReported(t *testing.T) {
	folder := image(t)
	path, err := hostile()
	if err != nil {
		t.Fatal(err)
	}
	instance, err := newDriver(t, folder).Start(t.Context(), sandbox.Spec{Guest: path, Args: []string{"exit"}})
	if err != nil {
		t.Fatal(err)
	}
	defer instance.Kill(t.Context())
	exit, err := instance.Wait(t.Context())
	if diff := cmp.Diff(sandbox.Exit{Code: 42, Stderr: "last words\n"}, exit); err != nil || diff != "" {
		t.Errorf("%v, -want +got\n%s", err, diff)
	}
}

func TestAKilledMonitorEndsTheRunWithAnError(t *testing.T) {
	instance, err := newDriver(t, image(t)).Start(t.Context(), sandbox.Spec{Guest: must(guest())})
	if err != nil {
		t.Fatal(err)
	}
	defer instance.Kill(t.Context())
	for _, stat := range monitors(t) {
		pid := 0
		for _, digit := range stat[:strings.IndexByte(stat, ' ')] {
			pid = pid*10 + int(digit-'0')
		}
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
	}
	exit, err := instance.Wait(t.Context())
	if err != nil || exit.Signal == "" {
		t.Errorf("%+v, %v", exit, err)
	}
}

func must(path string, _ error) string { return path }

func TestRestoredVMsDrawDifferentNumbers(t *testing.T) {
	e := hosted.New(newDriver(t, image(t)))
	path, _ := guest()
	drawn := map[string]bool{}
	for range 2 {
		result, err := e.Run(t.Context(), engine.Job{
			Run: "run-random", Sandbox: sandbox.Spec{Guest: path},
			Program: bridge.Program{Language: "python", Name: "main.py", Source: "import os, time\n[os.urandom(16).hex(), time.time()]"},
		}, silent{})
		if err != nil || result.Outcome.Failure != nil {
			t.Fatalf("%v, %+v", err, result)
		}
		value := result.Outcome.Value.([]bridge.Value)
		drawn[value[0].(string)] = true
		if off := time.Since(time.UnixMicro(int64(value[1].(float64) * 1e6))); off.Abs() > 30*time.Second {
			t.Errorf("the VM's clock is off by %s", off)
		}
	}
	if len(drawn) != 2 {
		t.Errorf("two VMs drew the same numbers: %v", drawn)
	}
}
