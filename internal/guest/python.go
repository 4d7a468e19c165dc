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

// PythonFiles returns the files of the guest for Python; main.py runs a program.
func PythonFiles() map[string]string {
	files := map[string]string{}
	entries, _ := pythonFiles.ReadDir("python") // the embedded folder always exists
	for _, e := range entries {
		text, _ := pythonFiles.ReadFile("python/" + e.Name())
		files[e.Name()] = string(text)
	}
	return files
}

// CompilePython compiles the guest for the Python at that path into a folder below
// cache, and returns the folder's absolute path. It reuses an existing folder.
// Compiling takes Python longer than everything else that the guest has it do. Users
// that run programs may read the folder; only its owner may change it.
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
	// Python need not check the files, because the folder's name contains their hash.
	cmd := exec.CommandContext(ctx, python, "-I", "-S", "-m", "compileall", "-q", "--invalidation-mode", "unchecked-hash", making)
	cmd.Env, cmd.Dir = []string{}, making
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("compile the guest for Python: %w: %.300s", err, out)
	}
	err = os.Rename(making, folder)
	if errors.Is(err, fs.ErrExist) { // another process was faster
		err = nil
	}
	return folder, err
}

// compiledFor returns the name of the folder, which differs for each Python and each
// version of the files.
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

// Languages returns the languages whose interpreter is in the sandbox, according to
// has. The guest runs commands and WebAssembly modules in any sandbox.
func Languages(has func(program string) bool) []string {
	var found []string
	for _, l := range interpretersByLanguage {
		if slices.ContainsFunc(l.programs, has) {
			found = append(found, l.language)
		}
	}
	return found
}

// interpretersByLanguage are the languages that need an interpreter in the sandbox, and its
// possible names in order of preference.
var interpretersByLanguage = []struct {
	language string
	programs []string
}{
	{"python", []string{"python3", "python"}},
	{"javascript", []string{"node", "deno"}},
	{"shell", []string{"sh"}},
}

// interpreterNames returns the names of a language's interpreters.
func interpreterNames(language string) []string {
	for _, l := range interpretersByLanguage {
		if l.language == language {
			return l.programs
		}
	}
	return nil
}
