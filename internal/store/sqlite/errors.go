package sqlite

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	driver "modernc.org/sqlite"
	lib "modernc.org/sqlite/lib"

	"github.com/toolroom/toolroom"
)

// fail converts err to the error for callers of the store, which has the file, the
// reason and a hint. It keeps a [*toolroom.Error], and wraps the error of ctx.
func (s *Store) fail(ctx context.Context, doing string, err error) error {
	var known *toolroom.Error
	switch {
	case err == nil || errors.As(err, &known):
		return err
	case ctx.Err() != nil:
		return fmt.Errorf("%s: %w", doing, ctx.Err())
	}
	reason, hint, transient := s.explain(err)
	return &toolroom.Error{
		Code:      toolroom.CodeInternal,
		Message:   fmt.Sprintf("cannot %s: %s (%s)", doing, reason, s.path),
		Retryable: transient,
		Hint:      hint,
		Details:   map[string]any{"path": s.path},
		Cause:     err,
	}
}

// explain describes SQLite's result code. transient reports whether the operation may
// succeed later. See https://www.sqlite.org/rescode.html.
func (s *Store) explain(err error) (reason, hint string, transient bool) {
	switch code(err) & 0xff {
	case lib.SQLITE_BUSY, lib.SQLITE_LOCKED:
		return "another process keeps the database locked",
			"end the process that holds the lock (a backup, or a sqlite3 shell with an open transaction); find it with: fuser " + s.path, true
	case lib.SQLITE_FULL:
		return "the disk is full", "free space on the disk of " + filepath.Dir(s.path) + "; Toolroom then continues by itself", true
	case lib.SQLITE_READONLY, lib.SQLITE_PERM, lib.SQLITE_CANTOPEN, lib.SQLITE_AUTH:
		return "the file cannot be written", "make it and its folder writable for the user that runs toolroom", false
	case lib.SQLITE_IOERR:
		return "I/O error: " + err.Error(), "check whether the disk is full or failing", true
	case lib.SQLITE_CORRUPT, lib.SQLITE_NOTADB:
		return "the file is damaged or not a SQLite database", "restore a backup, or move the file away to start with an empty database", false
	default:
		return err.Error(), "this is a bug in Toolroom or a fault of the disk; run: toolroom doctor", false
	}
}

func cannotOpen(path string, err error) error {
	return &toolroom.Error{
		Code:    toolroom.CodeInternal,
		Message: fmt.Sprintf("cannot open the database: %v", err),
		Hint:    "choose a folder that you may write to, with --home",
		Details: map[string]any{"path": path},
		Cause:   err,
	}
}

func code(err error) int {
	var e *driver.Error
	if !errors.As(err, &e) {
		return 0
	}
	return e.Code()
}

func isBusy(err error) bool { return code(err)&0xff == lib.SQLITE_BUSY }

// isTaken reports whether err is a violated unique constraint.
func isTaken(err error) bool {
	c := code(err)
	return c == lib.SQLITE_CONSTRAINT_UNIQUE || c == lib.SQLITE_CONSTRAINT_PRIMARYKEY
}
