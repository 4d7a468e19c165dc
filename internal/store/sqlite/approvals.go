package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/approval"
	"github.com/toolroom/toolroom/internal/policy"
)

const selectApproval = `SELECT id, call, digest, tool, arguments, identity, environment, reason, state,
	created, expires, answered, answered_by, comment, used,
	session, effects, diff, people, approvers, scopes, votes, scope, notified FROM approvals `

// CreateApproval implements [approval.Store].
func (s *Store) CreateApproval(ctx context.Context, a *toolroom.Approval) (*toolroom.Approval, error) {
	made := *a
	err := s.write(ctx, "create an approval", func(tx *sql.Tx) error {
		same, err := selectAll(ctx, tx, scanApproval, selectApproval+"WHERE digest = ? AND expires > ?", a.Digest, nanosOf(a.Created))
		if err != nil {
			return err
		}
		for _, old := range same {
			if approval.IsOpen(old, a.Created) {
				made = *old
				return nil
			}
		}
		var pending int
		err = tx.QueryRowContext(ctx, `SELECT count(*) FROM approvals
			WHERE state = 'pending' AND expires > ? AND coalesce(json_extract(identity, '$.subject'), '') = ?`,
			nanosOf(a.Created), a.Identity.Subject).Scan(&pending)
		if err != nil {
			return err
		}
		if pending >= approval.MaxPending {
			return approval.TooMany()
		}
		_, err = tx.ExecContext(ctx, `INSERT INTO approvals
			(id, call, digest, tool, arguments, identity, environment, reason, state, created, expires, answered, answered_by, comment, used,
			 session, effects, diff, people, approvers, scopes)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 0, '', '', 0, ?, ?, ?, ?, ?, ?)`,
			a.ID, a.Call, a.Digest, a.Tool, string(a.Arguments), jsonUnlessEmpty{a.Identity}, a.Environment, a.Reason,
			string(toolroom.ApprovalPending), nanosOf(a.Created), nanosOf(a.Expires),
			a.Session, jsonUnlessEmpty{a.Effects}, a.Diff, a.People, jsonUnlessEmpty{a.Approvers}, jsonUnlessEmpty{a.Scopes})
		if isTaken(err) {
			return toolroom.Errorf(toolroom.CodeConflict, "approval %s already exists", a.ID)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return &made, nil
}

// Approval implements [approval.Store].
func (s *Store) Approval(ctx context.Context, id string, now time.Time) (*toolroom.Approval, error) {
	a, err := findApproval(ctx, s.reader, id)
	if err != nil {
		return nil, s.fail(ctx, "read an approval", err)
	}
	approval.ExpireIfDue(a, now)
	return a, nil
}

// Approvals implements [approval.Store].
func (s *Store) Approvals(ctx context.Context, state toolroom.ApprovalState, now time.Time) ([]*toolroom.Approval, error) {
	where, args := "", []any(nil)
	switch state {
	case "":
	case toolroom.ApprovalPending:
		where, args = "WHERE state = 'pending' AND expires > ? ", []any{nanosOf(now)}
	case toolroom.ApprovalExpired:
		where, args = "WHERE state = 'expired' OR state = 'pending' AND expires <= ? ", []any{nanosOf(now)}
	default:
		where, args = "WHERE state = ? ", []any{string(state)}
	}
	list, err := selectAll(ctx, s.reader, scanApproval, selectApproval+where+"ORDER BY seq", args...)
	for _, a := range list {
		approval.ExpireIfDue(a, now)
	}
	return list, s.fail(ctx, "read approvals", err)
}

// AnswerApproval implements [approval.Store].
func (s *Store) AnswerApproval(ctx context.Context, id string, answer toolroom.Answer, now time.Time, grant func(*toolroom.Approval) *toolroom.Grant) (*toolroom.Approval, error) {
	return s.changeApproval(ctx, "answer an approval", id, func(tx *sql.Tx, a *toolroom.Approval) error {
		if err := approval.Decide(a, answer, now); err != nil {
			return err
		}
		if g := grant(a); g != nil {
			return insertGrant(ctx, tx, g)
		}
		return nil
	})
}

// UseApproval implements [approval.Store].
func (s *Store) UseApproval(ctx context.Context, id string, now time.Time) error {
	var refused error // must not roll back: Use changes a declined approval, too
	_, err := s.changeApproval(ctx, "use an approval", id, func(_ *sql.Tx, a *toolroom.Approval) error {
		refused = approval.Use(a, now)
		return nil
	})
	if err != nil {
		return err
	}
	return refused
}

// CancelApproval implements [approval.Store].
func (s *Store) CancelApproval(ctx context.Context, id string, now time.Time) error {
	_, err := s.changeApproval(ctx, "cancel an approval", id, func(_ *sql.Tx, a *toolroom.Approval) error {
		approval.Cancel(a, now)
		return nil
	})
	return err
}

// MarkApprovalNotified implements [approval.Store].
func (s *Store) MarkApprovalNotified(ctx context.Context, id, hook string) error {
	_, err := s.changeApproval(ctx, "record a notification about an approval", id, func(_ *sql.Tx, a *toolroom.Approval) error {
		if !slices.Contains(a.Notified, hook) {
			a.Notified = append(a.Notified, hook)
		}
		return nil
	})
	return err
}

// ExpireApprovals implements [approval.Store].
func (s *Store) ExpireApprovals(ctx context.Context, now time.Time) error {
	return s.write(ctx, "expire approvals", func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `UPDATE approvals SET state = 'expired'
			WHERE (state = 'pending' OR state = 'approved' AND used = 0 AND scope = 'once') AND expires <= ?`, nanosOf(now))
		if err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, "DELETE FROM grants WHERE expires <> 0 AND expires <= ?", nanosOf(now))
		return err
	})
}

// SweepApprovals implements [approval.Store].
func (s *Store) SweepApprovals(ctx context.Context, before time.Time) (n int64, err error) {
	err = s.write(ctx, "remove old approvals", func(tx *sql.Tx) error {
		// An approval that its call may still use has not expired.
		done, err := tx.ExecContext(ctx, "DELETE FROM approvals WHERE expires < ? AND answered < ?", nanosOf(before), nanosOf(before))
		if err != nil {
			return err
		}
		if n, err = done.RowsAffected(); err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, "DELETE FROM grants WHERE expires <> 0 AND expires < ?", nanosOf(before))
		return err
	})
	return n, err
}

func (s *Store) changeApproval(ctx context.Context, doing, id string, change func(*sql.Tx, *toolroom.Approval) error) (a *toolroom.Approval, err error) {
	err = s.write(ctx, doing, func(tx *sql.Tx) error {
		if a, err = findApproval(ctx, tx, id); err != nil {
			return err
		}
		found := a.State
		if err := change(tx, a); err != nil {
			return err
		}
		state := a.State
		if state == toolroom.ApprovalExpired {
			state = found // ExpireApprovals makes it final
		}
		_, err := tx.ExecContext(ctx, `UPDATE approvals SET state = ?, expires = ?, answered = ?, answered_by = ?, comment = ?, used = ?,
			votes = ?, scope = ?, notified = ? WHERE id = ?`,
			string(state), nanosOf(a.Expires), nanosOf(a.Answered), a.By, a.Comment, nanosOf(a.Used), jsonUnlessEmpty{a.Votes}, string(a.Scope), jsonUnlessEmpty{a.Notified}, id)
		return err
	})
	if err != nil {
		return nil, err
	}
	return a, nil
}

func findApproval(ctx context.Context, db rowQuerier, id string) (*toolroom.Approval, error) {
	a, err := scanApproval(db.QueryRowContext(ctx, selectApproval+"WHERE id = ?", id))
	if errors.Is(err, sql.ErrNoRows) {
		return nil, toolroom.Errorf(toolroom.CodeNotFound, "approval %q not found", id).
			WithCLIHint("list pending approvals: toolroom approve")
	}
	return a, err
}

func scanApproval(row scanner) (*toolroom.Approval, error) {
	a := &toolroom.Approval{}
	err := row.Scan(&a.ID, &a.Call, &a.Digest, &a.Tool, rawColumn{&a.Arguments}, jsonColumn{&a.Identity}, &a.Environment, &a.Reason, &a.State,
		timeColumn{&a.Created}, timeColumn{&a.Expires}, timeColumn{&a.Answered}, &a.By, &a.Comment, timeColumn{&a.Used},
		&a.Session, jsonColumn{&a.Effects}, &a.Diff, &a.People, jsonColumn{&a.Approvers}, jsonColumn{&a.Scopes}, jsonColumn{&a.Votes}, &a.Scope, jsonColumn{&a.Notified})
	if err != nil {
		return nil, err
	}
	return a, nil
}

const grantColumns = "id, approval, scope, tool, identity, environment, session, digest, given_by, created, expires"

// insertGrant stores a grant in the transaction of the answer that creates it.
func insertGrant(ctx context.Context, tx *sql.Tx, g *toolroom.Grant) error {
	_, err := tx.ExecContext(ctx, "INSERT INTO grants (caller, "+grantColumns+") VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
		approval.Caller(g.Identity), g.ID, g.Approval, string(g.Scope), g.Tool, jsonUnlessEmpty{g.Identity}, g.Environment, g.Session, g.Digest, g.By,
		nanosOf(g.Created), nanosOf(g.Expires))
	return err
}

// Grants implements [approval.Store].
func (s *Store) Grants(ctx context.Context, tool, caller string, now time.Time) ([]*toolroom.Grant, error) {
	query, args := "SELECT "+grantColumns+" FROM grants WHERE (expires = 0 OR expires > ?)", []any{nanosOf(now)}
	if tool != "" {
		query, args = query+" AND tool = ?", append(args, tool)
	}
	if caller != "" {
		query, args = query+" AND caller = ?", append(args, caller)
	}
	list, err := selectAll(ctx, s.reader, scanGrant, query+" ORDER BY seq", args...)
	return list, s.fail(ctx, "read approval rules", err)
}

// RemoveGrant implements [approval.Store].
func (s *Store) RemoveGrant(ctx context.Context, id string) error {
	none := toolroom.Errorf(toolroom.CodeNotFound, "approval rule %q not found", id).
		WithCLIHint("list approval rules: toolroom approve rules")
	return s.change(ctx, "remove an approval rule", none, "DELETE FROM grants WHERE id = ?", id)
}

func scanGrant(row scanner) (*toolroom.Grant, error) {
	g := &toolroom.Grant{}
	err := row.Scan(&g.ID, &g.Approval, &g.Scope, &g.Tool, jsonColumn{&g.Identity}, &g.Environment, &g.Session, &g.Digest, &g.By,
		timeColumn{&g.Created}, timeColumn{&g.Expires})
	if err != nil {
		return nil, err
	}
	return g, nil
}

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
