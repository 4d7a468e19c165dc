package sqlite

import (
	"context"
	"database/sql"
	"errors"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/session"
)

// SaveJournal implements [session.JournalStore].
func (s *Store) SaveJournal(ctx context.Context, call string, head *session.JournalHead, entries []session.JournalEntry) error {
	return s.write(ctx, "keep a journal", func(tx *sql.Tx) error {
		if err := dropJournal(ctx, tx, call); err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, "INSERT INTO journals (call, head) VALUES (?, ?)", call, asJSON{head}); err != nil {
			return err
		}
		for place, e := range entries {
			if err := saveJournalEntry(ctx, tx, call, place, e); err != nil {
				return err
			}
		}
		return nil
	})
}

// SaveJournalEntry implements [session.JournalStore].
func (s *Store) SaveJournalEntry(ctx context.Context, call string, place int, e session.JournalEntry) error {
	return s.write(ctx, "keep a journal", func(tx *sql.Tx) error { return saveJournalEntry(ctx, tx, call, place, e) })
}

func saveJournalEntry(ctx context.Context, tx *sql.Tx, call string, place int, e session.JournalEntry) error {
	_, err := tx.ExecContext(ctx, "INSERT OR REPLACE INTO journal_entries (call, place, entry) VALUES (?, ?, ?)", call, place, asJSON{e})
	return err
}

// Journal implements [session.JournalStore].
func (s *Store) Journal(ctx context.Context, call string) (*session.JournalHead, []session.JournalEntry, error) {
	head := &session.JournalHead{}
	err := s.reader.QueryRowContext(ctx, "SELECT head FROM journals WHERE call = ?", call).Scan(jsonColumn{head})
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil, toolroom.Errorf(toolroom.CodeNotFound, "journal of call %q not found", call)
	}
	if err != nil {
		return nil, nil, s.fail(ctx, "read a journal", err)
	}
	entries, err := selectAll(ctx, s.reader, scanJSON[session.JournalEntry], "SELECT entry FROM journal_entries WHERE call = ? ORDER BY place", call)
	return head, entries, s.fail(ctx, "read a journal", err)
}

func dropJournal(ctx context.Context, tx *sql.Tx, call string) error {
	for _, table := range []string{"journals", "journal_entries"} {
		if _, err := tx.ExecContext(ctx, "DELETE FROM "+table+" WHERE call = ?", call); err != nil {
			return err
		}
	}
	return nil
}
