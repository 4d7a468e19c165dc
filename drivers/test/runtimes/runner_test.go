//go:build integration

package runtimes

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/drivers/docker"
	"github.com/toolroom/toolroom/internal/config"
	runnerprogram "github.com/toolroom/toolroom/internal/sandbox/program"
	"github.com/toolroom/toolroom/sandbox"
	"github.com/toolroom/toolroom/sandbox/sandboxtest"
)

// runnerBuild is the build of the runner in these tests.
const runnerBuild = "suite"

// newRunner builds toolroom-runner and returns it as toolroom uses it.
func newRunner(t *testing.T) *runnerprogram.Program {
	t.Helper()
	path := filepath.Join(t.TempDir(), "toolroom-runner")
	compile := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w -X main.version="+runnerBuild, "-o", path, "github.com/toolroom/toolroom/drivers/cmd/toolroom-runner")
	compile.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := compile.CombinedOutput(); err != nil {
		t.Fatalf("build the runner: %v: %s", err, out)
	}
	p := runnerprogram.New(runnerprogram.Options{
		Name: "toolroom-runner", Find: func() (string, error) { return path, nil }, Folder: filepath.Join(t.TempDir(), "runner"), Build: runnerBuild,
		Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
	})
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

func always(settings any) func(context.Context) (any, error) {
	return func(context.Context) (any, error) { return settings, nil }
}

func TestGVisorPassesTheSuiteInTheRunner(t *testing.T) {
	t.Parallel()
	program(t, "runsc", "gvisor.dev/gvisor/runsc")
	d := newRunner(t).Driver("gvisor", always(config.GVisor{}))
	passes(t, "gvisor", sandboxtest.Options{
		New:       func(*testing.T) sandbox.Driver { return d },
		Guest:     made.guest,
		Lacks:     []sandbox.Limit{sandbox.LimitPIDs},
		Languages: []string{"python", "shell"},
	}, possible(inGVisor, nil))
}

func TestDockerPassesTheSuiteInTheRunner(t *testing.T) {
	t.Parallel()
	_, host := dockerDriver(t, docker.Options{})
	d := newRunner(t).Driver("docker", always(config.Docker{Host: host}))
	passes(t, "docker/runc", sandboxtest.Options{
		New:       func(*testing.T) sandbox.Driver { return d },
		Guest:     made.guest,
		Languages: []string{"python", "javascript", "shell"},
	}, possible(nil, inAnImage))
}

// A killed runner cannot remove its sandboxes. The next one does.
func TestTheSandboxesOfAKilledRunnerAreRemovedByTheNext(t *testing.T) {
	t.Parallel()
	program(t, "runsc", "gvisor.dev/gvisor/runsc")
	p := newRunner(t)
	d := p.Driver("gvisor", always(config.GVisor{}))
	start := func() sandbox.Sandbox {
		s, err := d.Start(t.Context(), sandbox.Spec{Run: "killed", Profile: sandbox.Standard, Guest: made.guest, Limits: sandbox.Limits{Memory: 256 << 20, PIDs: 128}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(s.Stream(), make([]byte, 4)); err != nil {
			t.Fatal(err)
		}
		return s
	}
	first := start()
	path, _, err := p.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	pid := processOf(t, path)
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if _, err := first.Wait(t.Context()); toolroom.CodeOf(err) != toolroom.CodeSandboxUnavailable || !strings.Contains(err.Error(), "ended unexpectedly (signal: killed)") {
		t.Errorf("the crash is reported as %v", err)
	}
	second := start()
	if left := lasting(traces(t, fmt.Sprint(pid))); len(left) > 0 {
		t.Errorf("the killed runner has left %v", left)
	}
	if err := second.Kill(t.Context()); err != nil {
		t.Error(err)
	}
}

// processOf returns the id of the process that runs a program.
func processOf(t *testing.T, path string) int {
	t.Helper()
	links, _ := filepath.Glob("/proc/[0-9]*/exe")
	for _, link := range links {
		if to, err := os.Readlink(link); err == nil && to == path {
			var pid int
			if _, err := fmt.Sscanf(link, "/proc/%d/exe", &pid); err == nil {
				return pid
			}
		}
	}
	t.Fatalf("%s does not run", path)
	return 0
}
