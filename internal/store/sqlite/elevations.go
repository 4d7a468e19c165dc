package sqlite

import (
	"context"
	"encoding/json"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/policy"
)

// AddElevation implements [policy.Elevations].
func (s *Store) AddElevation(ctx context.Context, e *policy.Elevation) error {
	tools, err := json.Marshal(e.Tools)
	if err != nil {
		return err
	}
	_, err = s.writer.ExecContext(ctx, `INSERT INTO elevations
		(id, subject, agent, tools, by, reason, created, expires, ended)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		e.ID, e.Subject, e.Agent, string(tools), e.By, e.Reason, instant(e.Created), instant(e.Expires), instant(e.Ended))
	if isTaken(err) {
		return toolroom.Errorf(toolroom.CodeConflict, "elevation %s already exists", e.ID)
	}
	return s.fail(ctx, "store an elevation", err)
}

// Elevations implements [policy.Elevations].
func (s *Store) Elevations(ctx context.Context, subject string, now time.Time) ([]*policy.Elevation, error) {
	const query = `SELECT id, subject, agent, tools, by, reason, created, expires, ended FROM elevations
		WHERE expires > ? AND ended = 0 AND (? = '' OR subject = ?) ORDER BY seq`
	list, err := selectAll(ctx, s.reader, scanElevation, query, instant(now), subject, subject)
	return list, s.fail(ctx, "read elevations", err)
}

// EndElevation implements [policy.Elevations].
func (s *Store) EndElevation(ctx context.Context, id string, now time.Time) error {
	done, err := s.writer.ExecContext(ctx, "UPDATE elevations SET ended = ? WHERE id = ? AND ended = 0 AND expires > ?", instant(now), id, instant(now))
	if err != nil {
		return s.fail(ctx, "end an elevation", err)
	}
	if n, err := done.RowsAffected(); err != nil || n > 0 {
		return err
	}
	return toolroom.Errorf(toolroom.CodeNotFound, "no elevation %q is in force", id).
		WithCLIHint("list elevations: toolroom policy elevate")
}

// ExpireElevations implements [policy.Elevations].
func (s *Store) ExpireElevations(ctx context.Context, now time.Time) error {
	_, err := s.writer.ExecContext(ctx, "UPDATE elevations SET ended = expires WHERE ended = 0 AND expires <= ?", instant(now))
	return s.fail(ctx, "end expired elevations", err)
}

func scanElevation(row scanner) (*policy.Elevation, error) {
	e := &policy.Elevation{}
	err := row.Scan(&e.ID, &e.Subject, &e.Agent, jsonColumn{&e.Tools}, &e.By, &e.Reason,
		timeColumn{&e.Created}, timeColumn{&e.Expires}, timeColumn{&e.Ended})
	if err != nil {
		return nil, err
	}
	return e, nil
}
