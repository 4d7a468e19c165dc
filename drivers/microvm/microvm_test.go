//go:build integration && linux

package microvm_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/toolroom/toolroom/bridge"
	"github.com/toolroom/toolroom/drivers/microvm"
	"github.com/toolroom/toolroom/internal/engine"
	"github.com/toolroom/toolroom/internal/engine/hosted"
	"github.com/toolroom/toolroom/sandbox"
	"github.com/toolroom/toolroom/sandbox/sandboxtest"
)

// guest builds a static guest that can run the attempts of package escape, once.
var guest = sync.OnceValues(func() (string, error) {
	folder, err := os.MkdirTemp("", "toolroom-guest-")
	if err != nil {
		return "", err
	}
	path := filepath.Join(folder, "toolroom-guest")
	build := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", path, "github.com/toolroom/toolroom/sandbox/sandboxtest/escape/guest")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	build.Stderr = os.Stderr
	return path, build.Run()
})

// image returns the folder of an image: one made by scripts/microvm.sh, or a new one.
func image(tb testing.TB) string {
	tb.Helper()
	if folder := os.Getenv("TOOLROOM_TEST_MICROVM"); folder != "" {
		return folder
	}
	folder := tb.TempDir()
	if err := microvm.Setup(tb.Context(), microvm.SetupOptions{Folder: folder, Log: func(line string) { tb.Log(line) }}); err != nil {
		tb.Fatalf("make the image: %v", err)
	}
	return folder
}

func newDriver(tb testing.TB, folder string) *microvm.Driver {
	tb.Helper()
	path, err := guest()
	if err != nil {
		tb.Fatalf("build the guest: %v", err)
	}
	return microvm.NewQEMU(microvm.Options{Folder: folder, Guest: path})
}

func TestTheSuite(t *testing.T) {
	d := newDriver(t, image(t))
	path, _ := guest()
	sandboxtest.Documented(t, "../../docs/runtimes.md", "microvm", d.Probe(t.Context()))
	sandboxtest.Run(t, sandboxtest.Options{
		New:       func(*testing.T) sandbox.Driver { return d },
		Guest:     path,
		Languages: []string{"python", "shell"},
		Leftovers: monitors,
	})
}

func TestVMsWaitForProgramsAndServeOneEach(t *testing.T) {
	d := newDriver(t, image(t))
	path, _ := guest()
	spec := sandbox.Spec{Profile: sandbox.Standard, Guest: path}
	e := hosted.NewWarm(d, hosted.Warm{Size: 1})
	e.Warm(spec)
	for range 2 {
		for e.Stats()[0].Ready == 0 {
			if err := e.Stats()[0].Problem; err != nil {
				t.Fatal(err)
			}
			time.Sleep(10 * time.Millisecond)
		}
		result, err := e.Run(t.Context(), engine.Job{
			Run: "run-warm", Owner: "tester", Sandbox: spec, Program: bridge.Program{Language: "shell", Source: "test ! -e mark && touch mark"},
		}, silent{})
		if err != nil || result.Outcome.Failure != nil || result.Outcome.Exit != 0 {
			t.Fatalf("%+v, %v: a folder that was used before?", result, err)
		}
	}
	if s := e.Stats()[0]; s.Taken != 2 || s.Drained != 0 || s.Failures != 0 {
		t.Errorf("%+v", s)
	}
	if err := e.Close(); err != nil {
		t.Error(err)
	}
	if left := monitors(t); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// monitors returns the running QEMU processes that this test has started.
func monitors(t *testing.T) []string {
	t.Helper()
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	var left []string
	for _, path := range stats {
		stat, err := os.ReadFile(path)
		if err == nil && strings.Contains(string(stat), "(qemu-system") && strings.Contains(string(stat), " "+strconv.Itoa(os.Getpid())+" ") {
			left = append(left, string(stat))
		}
	}
	return left
}
