package enginetest

import (
	"os"
	"path/filepath"
)

// CompiledEnv names a folder in which all test binaries keep the compiled CPython, from one
// run to the next. Without it each compiles its own, which takes five seconds of CPU time.
const CompiledEnv = "TOOLROOM_TEST_COMPILED"

// MakeCache makes a temporary cache folder for the homes of a test binary, so that engines
// are compiled once and not for each home. The caller removes it.
func MakeCache() (folder string, err error) {
	if folder, err = os.MkdirTemp("", "toolroom-cache-"); err != nil {
		return "", err
	}
	shared := os.Getenv(CompiledEnv)
	if shared == "" {
		return folder, nil
	}
	if err := os.MkdirAll(shared, 0o700); err != nil {
		return "", err
	}
	return folder, os.Symlink(shared, filepath.Join(folder, "python"))
}
