package sqlite

import (
	"context"
	"time"

	"github.com/toolroom/toolroom/internal/taint"
)

// Taints implements [taint.Store].
func (s *Store) Taints(ctx context.Context, owner, session string, since time.Time) ([]taint.Mark, error) {
	marks, err := selectAll(ctx, s.reader, scanMark, "SELECT label, tool FROM taints WHERE owner = ? AND session = ? AND read_at >= ?", owner, session, instant(since))
	return marks, s.fail(ctx, "read labels", err)
}

// AddTaints implements [taint.Store].
func (s *Store) AddTaints(ctx context.Context, owner, session string, marks []taint.Mark, now time.Time) error {
	tx, err := s.writer.BeginTx(ctx, nil)
	if err != nil {
		return s.fail(ctx, "store labels", err)
	}
	defer tx.Rollback() // does nothing after a commit
	if _, err := tx.ExecContext(ctx, "DELETE FROM taints WHERE read_at < ?", instant(now.Add(-taint.Keep))); err != nil {
		return s.fail(ctx, "store labels", err)
	}
	for _, m := range marks {
		_, err := tx.ExecContext(ctx, "INSERT INTO taints (owner, session, label, tool, read_at) VALUES (?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET read_at = max(read_at, excluded.read_at)",
			owner, session, m.Label, m.Tool, instant(now))
		if err != nil {
			return s.fail(ctx, "store labels", err)
		}
	}
	return s.fail(ctx, "store labels", tx.Commit())
}

// RemoveTaints implements [taint.Store].
func (s *Store) RemoveTaints(ctx context.Context, owner, session string) ([]taint.Mark, error) {
	marks, err := selectAll(ctx, s.writer, scanMark, "DELETE FROM taints WHERE owner = ? AND session = ? RETURNING label, tool", owner, session)
	return marks, s.fail(ctx, "forget labels", err)
}

func scanMark(row scanner) (taint.Mark, error) {
	var m taint.Mark
	err := row.Scan(&m.Label, &m.Tool)
	return m, err
}
