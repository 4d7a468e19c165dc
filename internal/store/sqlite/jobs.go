package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/jsonx"
	"github.com/toolroom/toolroom/internal/run"
)

const jobColumns = "id, identity, call, state, created, finished, started, result, fence, lease, answers, cancelled, approvals, resume, raw, token"

// CreateJob implements [run.JobStore].
func (s *Store) CreateJob(ctx context.Context, j *run.Job) error {
	return s.fail(ctx, "queue a job", insertJob(ctx, s.writer, j))
}

type execer interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

func insertJob(ctx context.Context, db execer, j *run.Job) error {
	call, err := jsonx.Marshal(j.Call) // keeps the arguments byte for byte
	if err != nil {
		return fmt.Errorf("queue job %s: %w", j.ID, err)
	}
	state := toolroom.JobQueued
	if j.State == toolroom.JobRunning {
		state = toolroom.JobRunning
	}
	_, err = db.ExecContext(ctx, "INSERT INTO jobs ("+jobColumns+") VALUES (?, ?, ?, ?, ?, 0, ?, '', ?, ?, ?, 0, '', ?, '', ?)",
		j.ID, asJSON{j.Identity}, string(call), string(state), nanosOf(j.Created), j.Started, j.Fence, nanosOf(j.Lease), jsonUnlessEmpty{j.Answers}, string(j.Resume), j.Identity.Token)
	if isTaken(err) {
		return toolroom.Errorf(toolroom.CodeConflict, "job %s already exists", j.ID)
	}
	return err
}

// Job implements [run.JobStore].
func (s *Store) Job(ctx context.Context, id string) (*run.Job, error) {
	j, err := findJob(ctx, s.reader, id)
	return j, s.fail(ctx, "read a job", err)
}

// ListJobs implements [run.JobStore].
func (s *Store) ListJobs(ctx context.Context, owner string, limit int) ([]*run.Job, error) {
	// The key of an identity is its subject, or local.
	list, err := selectAll(ctx, s.reader, scanJob, "SELECT "+jobColumns+` FROM jobs
		WHERE ? = '' OR coalesce(nullif(identity ->> 'subject', ''), 'local') = ? ORDER BY seq DESC LIMIT ?`, owner, owner, limit)
	return list, s.fail(ctx, "read jobs", err)
}

// ClaimJob implements [run.JobStore].
func (s *Store) ClaimJob(ctx context.Context, now, until time.Time) (*run.Job, error) {
	return s.claimJob(ctx, "", now, until)
}

// TakeJob implements [run.JobStore].
func (s *Store) TakeJob(ctx context.Context, id string, now, until time.Time) (*run.Job, error) {
	if _, err := s.Job(ctx, id); err != nil {
		return nil, err
	}
	return s.claimJob(ctx, id, now, until)
}

// claimJob leases the job id, or any job if id is empty. A cancelled job keeps the approvals that
// it waited for, which its worker abandons.
func (s *Store) claimJob(ctx context.Context, id string, now, until time.Time) (*run.Job, error) {
	const claim = `UPDATE jobs SET state = 'running', fence = fence + 1, lease = ?1, approvals = iif(cancelled, approvals, '')
		WHERE seq = (
			SELECT seq FROM jobs
			WHERE state <> 'done' AND (?3 = '' OR id = ?3) AND (state = 'queued' OR lease < ?2) AND (state <> 'waiting' OR cancelled OR EXISTS (
				SELECT 1 FROM json_each(jobs.approvals) AS waited WHERE NOT EXISTS (
					SELECT 1 FROM approvals WHERE approvals.id = waited.value AND approvals.state = 'pending' AND approvals.expires > ?2)))
			ORDER BY created, seq LIMIT 1)
		RETURNING ` + jobColumns
	var j *run.Job
	err := s.write(ctx, "claim a job", func(tx *sql.Tx) (err error) {
		j, err = scanJob(tx.QueryRowContext(ctx, claim, nanosOf(until), nanosOf(now), id))
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return j, nil
}

// WaitJob implements [run.JobStore].
func (s *Store) WaitJob(ctx context.Context, id string, fence int64, approvals []string) error {
	state := toolroom.JobRunning
	if len(approvals) > 0 {
		state = toolroom.JobWaiting
	}
	return s.changeJob(ctx, "record the approvals of a job", id, fence, "UPDATE jobs SET state = ?, approvals = ?", string(state), jsonUnlessEmpty{approvals})
}

// ExtendJob implements [run.JobStore].
func (s *Store) ExtendJob(ctx context.Context, id string, fence int64, until time.Time, started bool) error {
	return s.changeJob(ctx, "extend the lease of a job", id, fence,
		"UPDATE jobs SET lease = ?, started = started OR ?", nanosOf(until), started)
}

// FinishJob implements [run.JobStore].
func (s *Store) FinishJob(ctx context.Context, id string, fence int64, result *toolroom.Result, now time.Time) error {
	text, err := json.Marshal(result)
	if err != nil {
		return fmt.Errorf("store the result of job %s: %w", id, err)
	}
	const doing = "store the result of a job"
	return s.write(ctx, doing, func(tx *sql.Tx) error {
		const update = "UPDATE jobs SET state = 'done', result = ?, raw = ?, finished = ?, lease = 0, approvals = ''"
		if err := changeJob(ctx, tx, id, fence, update, string(text), string(result.Raw), nanosOf(now)); err != nil {
			return err
		}
		return dropJournal(ctx, tx, id)
	})
}

// CancelIdleJob implements [run.JobStore].
func (s *Store) CancelIdleJob(ctx context.Context, id string, result *toolroom.Result, now time.Time) (cancelled bool, err error) {
	text, err := json.Marshal(result)
	if err != nil {
		return false, fmt.Errorf("cancel job %s: %w", id, err)
	}
	err = s.write(ctx, "cancel a job", func(tx *sql.Tx) error {
		j, err := findJob(ctx, tx, id)
		if err != nil || j.State != toolroom.JobQueued && (j.State != toolroom.JobWaiting || !j.Lease.Before(now)) {
			return err
		}
		cancelled = true
		if _, err = tx.ExecContext(ctx, "UPDATE jobs SET state = 'done', result = ?, finished = ?, approvals = '' WHERE id = ?", string(text), nanosOf(now), id); err != nil {
			return err
		}
		return dropJournal(ctx, tx, id)
	})
	return cancelled && err == nil, err
}

// SweepJobs implements [run.JobStore].
func (s *Store) SweepJobs(ctx context.Context, before time.Time) (n int64, err error) {
	err = s.write(ctx, "remove old jobs", func(tx *sql.Tx) error {
		done, err := tx.ExecContext(ctx, "DELETE FROM jobs WHERE state = 'done' AND finished < ?", nanosOf(before))
		if err != nil {
			return err
		}
		if n, err = done.RowsAffected(); n == 0 || err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, "DELETE FROM job_questions WHERE job NOT IN (SELECT id FROM jobs)")
		return err
	})
	return n, err
}

// changeJob runs an update if fence is still that of the job.
func (s *Store) changeJob(ctx context.Context, doing, id string, fence int64, update string, args ...any) error {
	return s.write(ctx, doing, func(tx *sql.Tx) error { return changeJob(ctx, tx, id, fence, update, args...) })
}

func changeJob(ctx context.Context, tx *sql.Tx, id string, fence int64, update string, args ...any) error {
	j, err := findJob(ctx, tx, id)
	switch {
	case err != nil:
		return err
	case j.State == toolroom.JobDone:
		return toolroom.Errorf(toolroom.CodeConflict, "job %s already has a result", id)
	case j.Fence != fence || j.State == toolroom.JobQueued:
		return toolroom.Errorf(toolroom.CodeConflict, "job %s now belongs to another process", id)
	}
	_, err = tx.ExecContext(ctx, update+" WHERE id = ?", append(args, id)...)
	return err
}

func findJob(ctx context.Context, db rowQuerier, id string) (*run.Job, error) {
	j, err := scanJob(db.QueryRowContext(ctx, "SELECT "+jobColumns+" FROM jobs WHERE id = ?", id))
	if errors.Is(err, sql.ErrNoRows) {
		return nil, toolroom.Errorf(toolroom.CodeNotFound, "job %q not found", id)
	}
	return j, err
}

func scanJob(row scanner) (*run.Job, error) {
	j := &run.Job{}
	var resume, raw string
	err := row.Scan(&j.ID, jsonColumn{&j.Identity}, jsonColumn{&j.Call}, &j.State, timeColumn{&j.Created}, timeColumn{&j.Finished},
		&j.Started, jsonColumn{&j.Result}, &j.Fence, timeColumn{&j.Lease}, jsonColumn{&j.Answers}, &j.Cancelled, jsonColumn{&j.Approvals},
		&resume, &raw, &j.Identity.Token)
	if err != nil {
		return nil, err
	}
	j.Call.Identity.Token = j.Identity.Token
	if resume != "" {
		j.Resume = json.RawMessage(resume)
	}
	if raw != "" && j.Result != nil {
		j.Result.Raw = json.RawMessage(raw)
	}
	return j, nil
}
