//go:build linux

package microvm

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/bridge"
	"github.com/toolroom/toolroom/internal/engine"
	"github.com/toolroom/toolroom/internal/engine/hosted"
	"github.com/toolroom/toolroom/internal/proc"
	"github.com/toolroom/toolroom/sandbox"
	"github.com/toolroom/toolroom/sandbox/sandboxtest"
)

// TestMain runs this binary as the double of Firecracker, if asked to.
func TestMain(m *testing.M) {
	if slices.Contains(os.Args, "--api-sock") || len(os.Args) == 2 && os.Args[1] == "--version" {
		os.Exit(doubleMain(os.Args[1:]))
	}
	os.Exit(inFolder(m.Run))
}

// inFolder runs the tests with their own folder for temporary files, because files that
// are built once are used by several tests.
func inFolder(run func() int) int {
	folder, err := os.MkdirTemp("", "microvm-test-")
	if err == nil {
		err = errors.Join(os.Chmod(folder, 0o755), os.Setenv("TMPDIR", folder)) // some tests run as nobody
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(folder)
	return run()
}

// onDouble returns a driver that uses the double, and a guest.
func onDouble(t *testing.T, cold bool) (*Driver, string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	guest := filepath.Join(folder, "toolroom-guest")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", guest, "github.com/toolroom/toolroom/cmd/toolroom-guest")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	var packed bytes.Buffer
	if err := writeModules(&packed, []string{"a.ko"}, func(string) ([]byte, error) { return []byte("module"), nil }); err != nil {
		t.Fatal(err)
	}
	manifest, err := json.Marshal(Manifest{Kernel: "6.1", Languages: []string{"shell"}})
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{kernelFile: []byte("\x7fELF"), modulesFile: packed.Bytes(), rootFile: nil, manifestFile: manifest} {
		if err := os.WriteFile(filepath.Join(folder, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	d := NewFirecracker(Options{Folder: folder, Program: self, Guest: guest, Cold: cold})
	d.kvm = func() string { return "" } // the double does not need KVM
	return d, guest
}

// noTools is a call handler for programs that call no tools; it records their output.
type noTools struct {
	bridge.Handler
	stdout strings.Builder
}

func (h *noTools) Print(_, text string) { h.stdout.WriteString(text) }

func TestProgramsRunInFirecrackerVMs(t *testing.T) {
	// The path of t.TempDir is too long for a socket.
	temp, err := os.MkdirTemp("", "fc")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(temp) })
	t.Setenv("TMPDIR", temp)
	for name, cold := range map[string]bool{"booted": true, "restored": false} {
		t.Run(name, func(t *testing.T) {
			d, guest := onDouble(t, cold)
			for range 2 {
				h := &noTools{}
				result, err := hosted.New(d).Run(t.Context(), engine.Job{
					Run: "run-fc", Sandbox: sandbox.Spec{Guest: guest},
					Program: bridge.Program{Language: "shell", Source: "echo in a machine; exit 3"},
				}, h)
				if err != nil || result.Outcome.Exit != 3 || h.stdout.String() != "in a machine\n" {
					t.Fatalf("%v: %+v, %q", err, result, h.stdout.String())
				}
				if result.Isolation != "vm(firecracker+kvm)" {
					t.Errorf("isolation %q", result.Isolation)
				}
			}
			if left, err := filepath.Glob(filepath.Join(os.TempDir(), "toolroom-vm-"+proc.Owner()+"_*")); err != nil || len(left) > 0 {
				t.Errorf("left behind: %q, %v", left, err)
			}
			snapshots, err := filepath.Glob(filepath.Join(d.o.Folder, "snapshots", "*"))
			if err != nil || (len(snapshots) == 0) != cold {
				t.Errorf("%v: snapshots %q", err, snapshots)
			}
		})
	}
}

func TestFirecrackersFaultIsReported(t *testing.T) {
	t.Parallel()
	d, guest := onDouble(t, true)
	sandboxtest.Documented(t, "../../docs/runtimes.md", "firecracker", d.Probe(t.Context()))
	if err := os.Remove(filepath.Join(d.o.Folder, kernelFile)); err != nil {
		t.Fatal(err)
	}
	_, err := d.Start(t.Context(), sandbox.Spec{Guest: guest})
	if toolroom.CodeOf(err) != toolroom.CodeSandboxUnavailable || !strings.Contains(err.Error(), "The kernel file cannot be opened") {
		t.Errorf("got %v", err)
	}
}

func TestFirecrackerNeedsKVM(t *testing.T) {
	t.Parallel()
	d, _ := onDouble(t, false)
	d.kvm = func() string { return "no KVM" }
	p := d.Probe(t.Context())
	if p.State != sandbox.Unsupported || !strings.Contains(p.Reason, "no KVM") || p.Fix == "" {
		t.Errorf("%+v", p)
	}
}
