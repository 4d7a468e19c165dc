package guest

import (
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
)

//go:embed python/*.py
var pythonFiles embed.FS

// PythonFiles are the guest for Python: file names and texts, of which main.py
// runs a program.
func PythonFiles() map[string]string {
	files := map[string]string{}
	entries, _ := pythonFiles.ReadDir("python") // a folder that is built in
	for _, e := range entries {
		text, _ := pythonFiles.ReadFile("python/" + e.Name())
		files[e.Name()] = string(text)
	}
	return files
}

// CompilePython makes a folder below cache with the guest for the Python at that
// path, compiled by it, and gives the folder's absolute path. One that is there it
// takes as it is. To compile takes a Python longer than all else that the guest has it
// do. Whoever runs programs may read the folder, and none but its owner may
// change it.
func CompilePython(ctx context.Context, python, cache string) (string, error) {
	cache, err := filepath.Abs(cache)
	if err != nil {
		return "", err
	}
	files := PythonFiles()
	folder, err := compiledFor(python, cache, files)
	if err != nil {
		return "", err
	}
	if _, err := os.Stat(folder); err == nil {
		return folder, nil
	}
	if err := os.MkdirAll(cache, 0o700); err != nil {
		return "", err
	}
	making, err := os.MkdirTemp(cache, "making-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(making)
	if err := os.Chmod(making, 0o755); err != nil {
		return "", err
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(making, name), []byte(text), 0o644); err != nil {
			return "", err
		}
	}
	// The hash in the files' names vouches for them: Python need not look at both.
	cmd := exec.CommandContext(ctx, python, "-I", "-S", "-m", "compileall", "-q", "--invalidation-mode", "unchecked-hash", making)
	cmd.Env, cmd.Dir = []string{}, making
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("compile the guest for Python: %w: %.300s", err, out)
	}
	err = os.Rename(making, folder)
	if errors.Is(err, fs.ErrExist) { // another was faster
		err = nil
	}
	return folder, err
}

// compiledFor names the folder for a Python: another one, or other files, have
// another.
func compiledFor(python, cache string, files map[string]string) (string, error) {
	real, err := filepath.EvalSymlinks(python)
	if err != nil {
		return "", err
	}
	info, err := os.Stat(real)
	if err != nil {
		return "", err
	}
	sum := sha256.New()
	fmt.Fprintf(sum, "%q %d %d", real, info.Size(), info.ModTime().UnixNano())
	for _, name := range slices.Sorted(maps.Keys(files)) {
		fmt.Fprintf(sum, " %q %q", name, files[name])
	}
	return filepath.Join(cache, hex.EncodeToString(sum.Sum(nil)[:12])), nil
}
