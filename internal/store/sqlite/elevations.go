package sqlite

import (
	"context"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/policy"
)

// AddElevation stores a new elevation durably.
func (s *Store) AddElevation(ctx context.Context, e *policy.Elevation) error {
	_, err := s.writer.ExecContext(ctx, `INSERT INTO elevations
		(id, subject, agent, tools, by, reason, created, expires, ended)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		e.ID, e.Subject, e.Agent, asJSON{e.Tools}, e.By, e.Reason, nanosOf(e.Created), nanosOf(e.Expires), nanosOf(e.Ended))
	if isTaken(err) {
		return toolroom.Errorf(toolroom.CodeConflict, "elevation %s already exists", e.ID)
	}
	return s.fail(ctx, "store an elevation", err)
}

// Elevations implements [policy.ElevationLookup].
func (s *Store) Elevations(ctx context.Context, subject string, now time.Time) ([]*policy.Elevation, error) {
	const query = `SELECT id, subject, agent, tools, by, reason, created, expires, ended FROM elevations
		WHERE expires > ? AND ended = 0 AND (? = '' OR subject = ?) ORDER BY seq`
	list, err := selectAll(ctx, s.reader, scanElevation, query, nanosOf(now), subject, subject)
	return list, s.fail(ctx, "read elevations", err)
}

// EndElevation revokes an elevation. The error is not_found if the elevation is not in
// force.
func (s *Store) EndElevation(ctx context.Context, id string, now time.Time) error {
	none := toolroom.Errorf(toolroom.CodeNotFound, "no elevation %q is in force", id).
		WithCLIHint("list elevations: toolroom policy elevate")
	return s.change(ctx, "end an elevation", none,
		"UPDATE elevations SET ended = ? WHERE id = ? AND ended = 0 AND expires > ?", nanosOf(now), id, nanosOf(now))
}

// ExpireElevations ends the elevations whose time is over at now, so that they are not
// in force again if the clock is set back.
func (s *Store) ExpireElevations(ctx context.Context, now time.Time) error {
	return s.exec(ctx, "end expired elevations", "UPDATE elevations SET ended = expires WHERE ended = 0 AND expires <= ?", nanosOf(now))
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
