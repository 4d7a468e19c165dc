//go:build linux

package process_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/bridge"
	"github.com/toolroom/toolroom/internal/engine"
	"github.com/toolroom/toolroom/internal/engine/hosted"
	"github.com/toolroom/toolroom/sandbox"
)

// As root the test runs itself as a user who cannot make cgroups.
func TestAnUnprivilegedUserRunsProgramsUnderPartlyEnforcedDefaults(t *testing.T) {
	t.Parallel()
	if os.Geteuid() == 0 {
		out, err := asNobody(t).CombinedOutput()
		if err != nil || !strings.Contains(string(out), "--- PASS") {
			t.Errorf("as nobody: %v\n%s", err, out)
		}
		return
	}
	d, spec := driver(t)
	p := d.Probe(t.Context())
	if p.Holds[sandbox.LimitMemory] != "" {
		t.Skipf("this user can make cgroups (%s); run as root, the test uses one who cannot", p.Holds[sandbox.LimitMemory])
	}
	spec.Limits.Memory = 256 << 20
	run := func(s sandbox.Spec, source string) (*engine.Result, error) {
		return hosted.New(d).Run(t.Context(), engine.Job{Run: "plain", Sandbox: s, Program: bridge.Program{
			Language: "python", Name: "main.py", Source: source, Limits: bridge.Limits{Wall: 60_000},
		}}, quiet{})
	}
	if _, err := run(spec, "1 + 1"); toolroom.CodeOf(err) != toolroom.CodeLimitNotEnforceable {
		t.Errorf("a limit that was requested ended with %v", err)
	}
	spec.Defaulted = []sandbox.Limit{sandbox.LimitMemory}
	result, err := run(spec, "1 + 1")
	if err != nil || result.Outcome.Failure != nil {
		t.Fatalf("%+v, %v", result, err)
	}
	if held := result.Held[sandbox.LimitMemory]; !strings.HasPrefix(held, "rlimit (each process by itself") {
		t.Errorf("the result says that memory is held by %q", held)
	}
	result, err = run(spec, "len(bytearray(512 << 20))")
	if err != nil || result.Outcome.Failure == nil || !strings.Contains(result.Outcome.Failure.Message+result.Outcome.Failure.Type, "MemoryError") {
		t.Errorf("twice the memory: %+v, %v", result, err)
	}
}

type quiet struct{ bridge.Handler }

func (quiet) Print(string, string) {}

// asNobody returns a command that runs this test as user 65534, from a copy of the
// binary that this user can execute.
func asNobody(t *testing.T) *exec.Cmd {
	t.Helper()
	dir, err := os.MkdirTemp("", "toolroom-plain-") // only this user can enter the parents of t.TempDir
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	binary := filepath.Join(dir, "process.test")
	copySelf(t, binary, 0o755)
	cmd := exec.CommandContext(t.Context(), binary, "-test.v", "-test.run", "^"+t.Name()+"$")
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	return cmd
}
