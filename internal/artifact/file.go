package artifact

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
)

var errTooLarge = errors.New("larger than allowed")

// writeFile writes the bytes of r to a new file at path. The file is durable, and is not
// created if r fails or has more than limit bytes; then the error is errTooLarge.
func writeFile(path string, r io.Reader, limit int64) (size int64, err error) {
	dir := filepath.Dir(path)
	if err := makeDir(dir); err != nil {
		return 0, err
	}
	temp, err := os.CreateTemp(dir, "new-*")
	if err != nil {
		return 0, err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(temp.Name()) // sweepOrphans removes it if that fails
		}
	}()
	// Read one byte more, to detect that r has more than limit.
	size, err = io.Copy(temp, io.LimitReader(r, limit+1))
	if err == nil && size > limit {
		err = errTooLarge
	}
	if err == nil {
		err = temp.Sync()
	}
	if err = errors.Join(err, temp.Close()); err != nil {
		return 0, err
	}
	if err := os.Rename(temp.Name(), path); err != nil {
		return 0, err
	}
	return size, syncDir(dir)
}

// makeDir durably creates a folder, unless it exists.
func makeDir(dir string) error {
	err := os.Mkdir(dir, 0o700)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return syncDir(filepath.Dir(dir))
}

// syncDir makes the creation and renaming of files in dir durable. Windows has no such call
// and needs none: NTFS journals its folders.
func syncDir(dir string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// removeFile removes a file, if it exists.
func removeFile(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove an artifact: %w", err)
	}
	return nil
}

// contextReader is a reader that fails once its context has ended.
type contextReader struct {
	ctx context.Context
	r   io.Reader
}

func (c contextReader) Read(p []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	return c.r.Read(p)
}
