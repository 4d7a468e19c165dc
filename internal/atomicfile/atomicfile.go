// Package atomicfile replaces files atomically: readers see the old or the new content,
// never a part, even after a crash.
package atomicfile

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// Write replaces the file at path, which may be a symbolic link, or creates it with perm.
// An existing file keeps its permissions.
func Write(path string, data []byte, perm fs.FileMode) error {
	return WriteFrom(path, bytes.NewReader(data), perm)
}

// WriteFrom is like Write, with what from reads. What is no regular file, such as a pipe, is
// written to directly.
func WriteFrom(path string, from io.Reader, perm fs.FileMode) error {
	if target, err := filepath.EvalSymlinks(path); err == nil {
		path = target
	}
	if info, err := os.Stat(path); err == nil {
		if mode := info.Mode(); !mode.IsRegular() && !mode.IsDir() {
			return writeDirectly(path, from)
		}
		perm = info.Mode().Perm()
	}
	return writeTemp(path, from, perm, os.Rename)
}

// Create creates the file at path. If it exists, Create leaves it unchanged and returns
// fs.ErrExist.
func Create(path string, data []byte, perm fs.FileMode) error {
	return writeTemp(path, bytes.NewReader(data), perm, func(temp, path string) error {
		return errors.Join(os.Link(temp, path), os.Remove(temp))
	})
}

func writeDirectly(path string, from io.Reader) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, from)
	return errors.Join(err, f.Close())
}

// writeTemp writes a temporary file next to path and calls place to move it to path.
func writeTemp(path string, from io.Reader, perm fs.FileMode, place func(temp, path string) error) error {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	_, err = io.Copy(f, from)
	if err = errors.Join(err, f.Chmod(perm), f.Sync(), f.Close()); err == nil {
		err = place(f.Name(), path)
	}
	if err != nil {
		if left := os.Remove(f.Name()); !errors.Is(left, fs.ErrNotExist) {
			err = errors.Join(err, left)
		}
		return err
	}
	_ = SyncDir(filepath.Dir(path))
	return nil
}

// SyncDir makes renames in a folder durable on systems that can sync a folder. The files
// themselves are complete in any case. It returns an error only if there is no such folder.
func SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	_ = d.Sync()
	return d.Close()
}
