package examples

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestAModuleCallsTheToolsOfTheProgramThatRunsIt(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	host, module := filepath.Join(folder, "wasm"), filepath.Join(folder, "sum.wasm")
	if runtime.GOOS == "windows" {
		host += ".exe"
	}
	build := exec.CommandContext(t.Context(), "go", "build", "-ldflags", "-s -w", "-o", host, "./wasm")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the example: %v\n%s", err, out)
	}
	build = exec.CommandContext(t.Context(), "go", "build", "-ldflags", "-s -w", "-o", module, "./wasm/sum")
	build.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build its module: %v\n%s", err, out)
	}
	run := exec.CommandContext(t.Context(), host, module, "1", "2", "39")
	run.Dir = folder
	out, err := run.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	want := []string{"+ 1 = 1", "+ 2 = 3", "+ 39 = 42", "3 calls gave 42"}
	if diff := cmp.Diff(want, strings.Split(strings.TrimSpace(string(out)), "\n")); diff != "" {
		t.Errorf("what it prints differs (-want +got):\n%s", diff)
	}
}
