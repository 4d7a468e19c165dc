package sqlite

import (
	"context"
	"embed"
	"fmt"
	"io/fs"

	"github.com/toolroom/toolroom"
)

//go:embed migrations/*.sql
var migrations embed.FS

// applicationID marks the file as Toolroom's: "Trom" in ASCII. See
// https://www.sqlite.org/pragma.html#pragma_application_id.
const applicationID = 0x54726f6d

// migrate runs the missing migrations in one transaction under the write lock. If
// several processes open a new file, one of them migrates it. SQLite's user_version is
// the number of migrations.
func (s *Store) migrate(ctx context.Context) error {
	files, err := fs.Glob(migrations, "migrations/*.sql") // sorted
	if err != nil {
		return err
	}
	version, err := s.version(ctx, s.writer)
	if err != nil {
		return err
	}
	if version == len(files) {
		return nil
	}
	tx, err := s.writer.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() // does nothing after a commit
	version, err = s.version(ctx, tx)
	if err != nil {
		return err
	}
	if version > len(files) {
		return toolroom.Errorf(toolroom.CodeUnsupported, "database %s has version %d, and this toolroom knows versions up to %d", s.path, version, len(files)).
			WithHint("use the newer version that wrote it, or another --home")
	}
	for i, file := range files[version:] {
		text, err := fs.ReadFile(migrations, file)
		if err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, string(text)); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		version := version + i + 1
		mark := fmt.Sprintf("PRAGMA user_version = %d; PRAGMA application_id = %d", version, applicationID)
		if _, err := tx.ExecContext(ctx, mark); err != nil {
			return err
		}
	}
	return tx.Commit()
}

// version returns the number of migrations that the database has. It returns an error
// for a database of another program.
func (s *Store) version(ctx context.Context, db rowQuerier) (version int, err error) {
	var id, tables int
	const query = `SELECT user_version, application_id, (SELECT count(*) FROM sqlite_schema)
		FROM pragma_user_version, pragma_application_id`
	if err := db.QueryRowContext(ctx, query).Scan(&version, &id, &tables); err != nil {
		return 0, err
	}
	if id != applicationID && (id != 0 || tables > 0) {
		return 0, toolroom.Errorf(toolroom.CodeUnsupported, "%s is a database of another program", s.path).
			WithHint("choose another file for Toolroom")
	}
	return version, nil
}
