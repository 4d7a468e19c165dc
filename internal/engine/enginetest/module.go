package enginetest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// BuildModule compiles the programs of the suite to WebAssembly, with the Go that runs
// the tests, for [Options.Module].
func BuildModule() ([]byte, error) {
	folder, err := os.MkdirTemp("", "toolroom-module")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(folder)
	path := filepath.Join(folder, "module.wasm")
	build := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", path, "github.com/toolroom/toolroom/internal/engine/enginetest/module")
	build.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm", "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("compile the suite's programs for WebAssembly: %w\n%s", err, out)
	}
	return os.ReadFile(path)
}

// BuildGuest compiles toolroom-guest, which starts in a tenth of the time of a test binary,
// and is what people run.
func BuildGuest(path string) error {
	build := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", path, "github.com/toolroom/toolroom/cmd/toolroom-guest")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("compile toolroom-guest: %w\n%s", err, out)
	}
	return nil
}
