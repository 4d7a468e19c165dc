package atomicfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
)

// Key reads the private key at path. If the file does not exist, it creates it with the key
// that fresh returns. If several processes do so at once, all get the same key. Key returns an
// error if other users may read the file.
func Key(path string, fresh func() []byte) ([]byte, error) {
	text, err := readKey(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return text, err
	}
	if err := Create(path, fresh(), 0o600); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("create the key %s: %w", path, err)
	}
	return readKey(path)
}

func readKey(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if info.Mode().Perm()&0o077 != 0 && runtime.GOOS != "windows" {
		return nil, fmt.Errorf("others may read the key %s (mode %04o): run chmod 600 on it, and consider replacing the key", path, info.Mode().Perm())
	}
	return os.ReadFile(path)
}
