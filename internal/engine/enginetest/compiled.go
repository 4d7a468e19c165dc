package enginetest

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// CompiledEnv names a folder in which all test binaries keep the compiled engines, from one
// run to the next. Without it each binary compiles its own, which takes five seconds of CPU
// time for CPython and half a second for QuickJS.
const CompiledEnv = "TOOLROOM_TEST_COMPILED"

// compiledFolders are the folders of a home's cache that hold compiled engines.
var compiledFolders = []string{"python", "wasm"}

// MakeCache makes a temporary cache folder for the homes of a test binary, so that engines
// are compiled once and not for each home. The caller removes it.
func MakeCache() (folder string, err error) {
	if folder, err = os.MkdirTemp("", "toolroom-cache-"); err != nil {
		return "", err
	}
	return folder, linkFolders(folder, cmp.Or(os.Getenv(CompiledEnv), filepath.Join(folder, "compiled")))
}

// ShareCompiled makes a home use the compiled engines of a cache folder that MakeCache has
// made. All else that the home caches is its own.
func ShareCompiled(home, cache string) error {
	return linkFolders(filepath.Join(home, "cache"), cache)
}

// linkFolders links the folders of compiled engines in a cache folder to those in another
// folder, and creates both if necessary.
func linkFolders(cache, to string) error {
	err := os.MkdirAll(cache, 0o700)
	for _, name := range compiledFolders {
		err = errors.Join(err, os.MkdirAll(filepath.Join(to, name), 0o700))
		if linked := os.Symlink(filepath.Join(to, name), filepath.Join(cache, name)); !errors.Is(linked, fs.ErrExist) {
			err = errors.Join(err, linked)
		}
	}
	return err
}
