package sqlite

import (
	"context"
	"database/sql"
	"time"

	"github.com/toolroom/toolroom/internal/taint"
)

// Taints implements [taint.Store].
func (s *Store) Taints(ctx context.Context, owner, session string, since time.Time) ([]taint.Label, error) {
	labels, err := selectAll(ctx, s.reader, scanLabel, "SELECT label, tool FROM taints WHERE owner = ? AND session = ? AND read_at >= ?", owner, session, nanosOf(since))
	return labels, s.fail(ctx, "read labels", err)
}

// AddTaints implements [taint.Store].
func (s *Store) AddTaints(ctx context.Context, owner, session string, labels []taint.Label, now time.Time) error {
	return s.write(ctx, "store labels", func(tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, "DELETE FROM taints WHERE read_at < ?", nanosOf(now.Add(-taint.Retention))); err != nil {
			return err
		}
		for _, m := range labels {
			_, err := tx.ExecContext(ctx, "INSERT INTO taints (owner, session, label, tool, read_at) VALUES (?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET read_at = max(read_at, excluded.read_at)",
				owner, session, m.Name, m.Tool, nanosOf(now))
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// RemoveTaints implements [taint.Store].
func (s *Store) RemoveTaints(ctx context.Context, owner, session string) ([]taint.Label, error) {
	labels, err := selectAll(ctx, s.writer, scanLabel, "DELETE FROM taints WHERE owner = ? AND session = ? RETURNING label, tool", owner, session)
	return labels, s.fail(ctx, "remove labels", err)
}

func scanLabel(row scanner) (taint.Label, error) {
	var m taint.Label
	err := row.Scan(&m.Name, &m.Tool)
	return m, err
}
