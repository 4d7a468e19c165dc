//go:build linux

package driver

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/toolroom/toolroom/internal/guest"
	"github.com/toolroom/toolroom/internal/sandbox/program"
	"github.com/toolroom/toolroom/sandbox"
	"github.com/toolroom/toolroom/sandbox/sandboxtest"
	"github.com/toolroom/toolroom/sandbox/sandboxtest/rogue"
)

// TestMain runs this binary as the guest.
func TestMain(m *testing.M) {
	if code, ok := rogue.Main(os.Args[1:], guest.MainArg); ok {
		os.Exit(code)
	}
	if len(os.Args) > 1 && (os.Args[1] == guest.MainArg || os.Args[1] == guest.ToolArg) {
		os.Exit(guest.Main(os.Args[1:]))
	}
	os.Exit(m.Run())
}

// guestBinary returns the guest. This test binary may need libraries that a sandbox lacks.
func guestBinary(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "guest")
	build := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", path, "github.com/toolroom/toolroom/sandbox/sandboxtest/escape/guest")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return path
}

func TestADriverInPythonPassesTheSuite(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		skipOrFail(t, "python3 is not installed")
	}
	p := program.New(program.Options{
		Name: "bwrap", Find: func() (string, error) { return python, nil }, Args: []string{"driver.py"}, Folder: filepath.Join(t.TempDir(), "runner"),
	})
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	d := p.Driver("bwrap", nil)
	if probe := d.Probe(t.Context()); probe.State != sandbox.Available {
		skipOrFail(t, probe.Reason)
	}
	o := sandboxtest.Options{
		New: func(*testing.T) sandbox.Driver { return d }, Guest: guestBinary(t), Languages: []string{"python", "shell"},
		Lacks: []sandbox.Limit{sandbox.LimitCPU, sandbox.LimitMemory, sandbox.LimitPIDs, sandbox.LimitDisk, sandbox.LimitEgress},
	}
	sandboxtest.Run(t, o)
	sandboxtest.Rogue(t, o)
}

// skipOrFail skips the test, or fails it on CI, where everything must be there.
func skipOrFail(t *testing.T, reason string) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatal(reason)
	}
	t.Skip(reason)
}
