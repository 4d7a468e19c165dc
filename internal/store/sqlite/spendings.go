package sqlite

import (
	"context"
	"database/sql"
	"math"
	"time"

	"github.com/toolroom/toolroom/internal/effects"
	"github.com/toolroom/toolroom/internal/policy"
)

// Spent implements [policy.SpendingStore].
func (s *Store) Spent(ctx context.Context, owner, unit string, since time.Time) (map[string]int64, error) {
	sums, err := spent(ctx, s.reader, owner, unit, since)
	return sums, s.fail(ctx, "read spending", err)
}

// Spend implements [policy.SpendingStore].
func (s *Store) Spend(ctx context.Context, entries []policy.SpendingEntry, check func(policy.SpendingSums) error, before time.Time) error {
	return s.write(ctx, "record spending", func(tx *sql.Tx) error {
		for _, e := range entries {
			if _, err := tx.ExecContext(ctx, "DELETE FROM spendings WHERE call = ?", e.Call); err != nil {
				return err
			}
		}
		if err := check(func(owner, unit string, since time.Time) (map[string]int64, error) {
			return spent(ctx, tx, owner, unit, since)
		}); err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, "DELETE FROM spendings WHERE spent_at < ?", nanosOf(before)); err != nil {
			return err
		}
		for _, e := range entries {
			if _, err := tx.ExecContext(ctx, "INSERT INTO spendings (call, owner, tool, unit, micros, spent_at) VALUES (?, ?, ?, ?, ?, ?)",
				e.Call, e.Owner, e.Tool, e.Unit, e.Micros, nanosOf(e.Time)); err != nil {
				return err
			}
		}
		return nil
	})
}

// Unspend implements [policy.SpendingStore].
func (s *Store) Unspend(ctx context.Context, calls []string) error {
	return s.exec(ctx, "undo spending", "DELETE FROM spendings WHERE call IN (SELECT value FROM json_each(?))", asJSON{calls})
}

// toolSum is the amount that calls of a tool have spent, in whole units and the remaining
// micros: the sum in micros may be too large for SQLite.
type toolSum struct {
	tool        string
	units, rest int64
}

const microsPerUnit = 1_000_000

func (t toolSum) micros() int64 {
	if t.units > math.MaxInt64/microsPerUnit {
		return math.MaxInt64
	}
	return effects.AddMicros(t.units*microsPerUnit, t.rest)
}

func spent(ctx context.Context, db querier, owner, unit string, since time.Time) (map[string]int64, error) {
	rows, err := selectAll(ctx, db, func(row scanner) (toolSum, error) {
		var t toolSum
		err := row.Scan(&t.tool, &t.units, &t.rest)
		return t, err
	}, "SELECT tool, sum(micros / 1000000), sum(micros % 1000000) FROM spendings WHERE unit = ? AND spent_at > ? AND (? = '' OR owner = ?) GROUP BY tool", unit, nanosOf(since), owner, owner)
	sums := make(map[string]int64, len(rows))
	for _, t := range rows {
		sums[t.tool] = t.micros()
	}
	return sums, err
}
