// Package sqlite stores Toolroom's state in one SQLite file. Start at [Open].
//
// One connection writes, and a few read. Several processes may have the same file
// open: SQLite's lock admits one writer at a time. Each write is on the disk when it
// returns (WAL, synchronous=FULL).
package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"time"

	driver "modernc.org/sqlite"

	"github.com/toolroom/toolroom"
)

// Options configure a Store. The zero value is right for a server.
type Options struct {
	// BusyTimeout is how long a write waits for another process; the default is 5 s.
	BusyTimeout time.Duration
	// Readers is the maximum number of reading connections; the default is 4.
	Readers int
}

// Store is an open database. Its methods are safe for concurrent use.
type Store struct {
	path   string
	writer *sql.DB
	reader *sql.DB
	// appendStatements has the statements that append receipts, by their text. SQLite compiles
	// them once: for a single receipt that takes as long as running them.
	appendStatements map[string]*sql.Stmt
}

// Open opens the database at path and migrates it. If necessary it creates the file and
// its folder, accessible to this user alone. If a newer Toolroom has written the
// database, the error has code unsupported.
func Open(ctx context.Context, path string, opts Options) (*Store, error) {
	if opts.BusyTimeout <= 0 {
		opts.BusyTimeout = 5 * time.Second
	}
	if opts.Readers <= 0 {
		opts.Readers = 4
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("open database %s: %w", path, err)
	}
	if err := create(path); err != nil {
		return nil, err
	}
	s := &Store{path: path}
	pragmas := url.Values{
		"_busy_timeout": {strconv.FormatInt(opts.BusyTimeout.Milliseconds(), 10)},
		"_foreign_keys": {"on"},
		"_synchronous":  {"FULL"},
		"_dqs":          {"0"},
		"_txlock":       {"immediate"},
	}
	if s.writer, err = connect(path, pragmas, 1); err != nil {
		return nil, err
	}
	if err := s.prepare(ctx, opts.BusyTimeout); err != nil {
		return nil, errors.Join(err, s.writer.Close())
	}
	pragmas.Set("_query_only", "on")
	pragmas.Del("_txlock")
	if s.reader, err = connect(path, pragmas, opts.Readers); err != nil {
		return nil, errors.Join(err, s.writer.Close())
	}
	return s, nil
}

// Close closes the file. Closing it again does nothing.
func (s *Store) Close() error {
	return errors.Join(s.reader.Close(), s.writer.Close())
}

// create creates the file before SQLite does, because SQLite would make it readable for
// other users. The files that SQLite creates beside it get the same mode.
func create(path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return cannotOpen(path, err)
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return cannotOpen(path, err)
	}
	return f.Close()
}

func connect(path string, pragmas url.Values, connections int) (*sql.DB, error) {
	dsn := url.URL{Scheme: "file", Path: filepath.ToSlash(path), OmitHost: true, RawQuery: pragmas.Encode()}
	connector, err := driver.NewConnector(dsn.String())
	if err != nil {
		return nil, fmt.Errorf("open database %s: %w", path, err)
	}
	db := sql.OpenDB(connector)
	db.SetMaxOpenConns(connections)
	db.SetMaxIdleConns(connections)
	return db, nil
}

// prepare turns WAL on and migrates the database.
func (s *Store) prepare(ctx context.Context, timeout time.Duration) error {
	err := s.useWAL(ctx)
	// If two processes turn WAL on at the same time, SQLite returns SQLITE_BUSY to
	// one of them without waiting.
	for end := time.Now().Add(timeout); isBusy(err) && time.Now().Before(end); err = s.useWAL(ctx) {
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			return s.fail(ctx, "open the database", ctx.Err())
		}
	}
	if err == nil {
		err = s.migrate(ctx)
	}
	if err == nil {
		err = s.prepareAppend(ctx)
	}
	return s.fail(ctx, "open the database", err)
}

func (s *Store) useWAL(ctx context.Context) error {
	var mode string
	if err := s.writer.QueryRowContext(ctx, "PRAGMA journal_mode=WAL").Scan(&mode); err != nil {
		return err
	}
	if mode != "wal" {
		return toolroom.Errorf(toolroom.CodeUnsupported, "database %s cannot be used: its file system does not support shared memory (journal mode %s)", s.path, mode).
			WithHint("keep it on a local disk, not on a network share")
	}
	return nil
}

// write runs f in a transaction that holds the write lock from the start, so that no
// other writer changes what f has read.
func (s *Store) write(ctx context.Context, doing string, f func(tx *sql.Tx) error) error {
	tx, err := s.writer.BeginTx(ctx, nil)
	if err != nil {
		return s.fail(ctx, doing, err)
	}
	if err := f(tx); err != nil {
		_ = tx.Rollback() // the first error matters
		return s.fail(ctx, doing, err)
	}
	return s.fail(ctx, doing, tx.Commit())
}

// exec runs one statement.
func (s *Store) exec(ctx context.Context, doing, statement string, args ...any) error {
	_, err := s.writer.ExecContext(ctx, statement, args...)
	return s.fail(ctx, doing, err)
}

// change runs one statement that must change something; otherwise the error is none.
func (s *Store) change(ctx context.Context, doing string, none error, statement string, args ...any) error {
	done, err := s.writer.ExecContext(ctx, statement, args...)
	if err != nil {
		return s.fail(ctx, doing, err)
	}
	if n, err := done.RowsAffected(); err != nil || n > 0 {
		return err
	}
	return none
}

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
