package sqlite

import (
	"context"
	"errors"
	"os"
)

// Snapshot writes a consistent copy of the database to path, which must not exist. Others
// may read and write the database meanwhile.
func (s *Store) Snapshot(ctx context.Context, path string) error {
	// SQLite would make the file readable for other users; it accepts an empty one.
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err == nil {
		err = f.Close()
	}
	if err != nil {
		return s.fail(ctx, "copy the database", err)
	}
	if _, err := s.writer.ExecContext(ctx, "VACUUM INTO ?", path); err != nil {
		return errors.Join(s.fail(ctx, "copy the database", err), os.Remove(path))
	}
	return nil
}
