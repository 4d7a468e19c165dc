// Package keyfile keeps a private key in a file that only its owner may read.
package keyfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"

	"github.com/toolroom/toolroom/internal/atomicfile"
)

// Open reads the key at path, and makes it with what fresh gives when there is
// none yet; of several processes that do so at once one makes it and all read
// the same. A file that others may read is an error.
func Open(path string, fresh func() []byte) ([]byte, error) {
	text, err := read(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return text, err
	}
	if err := atomicfile.Create(path, fresh(), 0o600); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("make the key %s: %w", path, err)
	}
	return read(path)
}

func read(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if info.Mode().Perm()&0o077 != 0 && runtime.GOOS != "windows" {
		return nil, fmt.Errorf("others may read the key %s (mode %04o): chmod 600 it, and think about whether to replace it", path, info.Mode().Perm())
	}
	return os.ReadFile(path)
}
