package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"math"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/jsonx"
	"github.com/toolroom/toolroom/internal/run"
	"github.com/toolroom/toolroom/internal/schedule"
)

// CreateSchedule implements [schedule.Store].
func (s *Store) CreateSchedule(ctx context.Context, c *schedule.Schedule, limit int) error {
	body, err := jsonx.Marshal(c) // keeps the arguments byte for byte
	if err != nil {
		return err
	}
	return s.write(ctx, "store a schedule", func(tx *sql.Tx) error {
		var have int
		if err := tx.QueryRowContext(ctx, "SELECT count(*) FROM schedules WHERE owner = ? AND next_run <> 0", c.Owner()).Scan(&have); err != nil {
			return err
		}
		if have >= limit {
			return toolroom.Errorf(toolroom.CodeResourceLimit, "%s has %d schedules, the maximum", c.Owner(), have).WithHint("delete some: cron:list, cron:delete")
		}
		_, err := tx.ExecContext(ctx, "INSERT INTO schedules (id, owner, next_run, settled, runs, body) VALUES (?, ?, ?, ?, ?, ?)",
			c.ID, c.Owner(), nextRun(c), nanosOf(c.Settled), c.Runs, string(body))
		return err
	})
}

// pausedRun is the time of the next run of a paused schedule in the table.
const pausedRun = math.MaxInt64

func nextRun(c *schedule.Schedule) int64 {
	if !c.Paused.IsZero() {
		return pausedRun
	}
	return nanosOf(c.Next)
}

// Schedule implements [schedule.Store].
func (s *Store) Schedule(ctx context.Context, id string) (*schedule.Schedule, error) {
	c, err := scanJSON[*schedule.Schedule](s.reader.QueryRowContext(ctx, "SELECT body FROM schedules WHERE id = ?", id))
	if errors.Is(err, sql.ErrNoRows) {
		return nil, schedule.NotFound(id)
	}
	return c, s.fail(ctx, "read a schedule", err)
}

// Schedules implements [schedule.Store].
func (s *Store) Schedules(ctx context.Context, owner string) ([]*schedule.Schedule, error) {
	list, err := selectAll(ctx, s.reader, scanJSON[*schedule.Schedule], "SELECT body FROM schedules WHERE owner = ? ORDER BY seq", owner)
	return list, s.fail(ctx, "read schedules", err)
}

// DueSchedules implements [schedule.Store].
func (s *Store) DueSchedules(ctx context.Context, now, ahead time.Time) ([]*schedule.Schedule, error) {
	list, err := selectAll(ctx, s.reader, scanJSON[*schedule.Schedule], "SELECT body FROM schedules WHERE next_run <> 0 AND next_run <> ? AND (next_run <= ? OR settled > ?) ORDER BY next_run, seq",
		pausedRun, nanosOf(now), nanosOf(ahead))
	return list, s.fail(ctx, "read schedules", err)
}

// AdvanceSchedule implements [schedule.Store].
func (s *Store) AdvanceSchedule(ctx context.Context, was, c *schedule.Schedule, job *run.Job) (done bool, err error) {
	body, err := jsonx.Marshal(c)
	if err != nil {
		return false, err
	}
	err = s.write(ctx, "advance a schedule", func(tx *sql.Tx) error {
		changed, err := tx.ExecContext(ctx, "UPDATE schedules SET next_run = ?, settled = ?, runs = ?, body = ? WHERE id = ? AND next_run = ? AND runs = ?",
			nextRun(c), nanosOf(c.Settled), c.Runs, string(body), c.ID, nextRun(was), was.Runs)
		if err != nil {
			return err
		}
		n, err := changed.RowsAffected()
		if done = n == 1; !done || job == nil || err != nil {
			return err
		}
		return insertJob(ctx, tx, job)
	})
	return done && err == nil, err
}

// DeleteSchedule implements [schedule.Store].
func (s *Store) DeleteSchedule(ctx context.Context, id string) error {
	return s.change(ctx, "delete a schedule", schedule.NotFound(id), "DELETE FROM schedules WHERE id = ?", id)
}

// SweepSchedules implements [schedule.Store].
func (s *Store) SweepSchedules(ctx context.Context, before time.Time) error {
	return s.exec(ctx, "remove old schedules", "DELETE FROM schedules WHERE next_run = 0 AND settled < ?", nanosOf(before))
}
