package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/approval"
)

const selectApproval = `SELECT id, call, digest, tool, arguments, identity, reason, state,
	created, expires, answered, answered_by, comment, used FROM approvals `

// CreateApproval implements [approval.Store].
func (s *Store) CreateApproval(ctx context.Context, a *approval.Approval) (*approval.Approval, error) {
	identity, err := json.Marshal(a.Identity)
	if err != nil {
		return nil, err
	}
	made := *a
	err = s.write(ctx, "ask for an approval", func(tx *sql.Tx) error {
		same, err := selectAll(ctx, tx, scanApproval, selectApproval+"WHERE digest = ? AND expires > ?", a.Digest, instant(a.Created))
		if err != nil {
			return err
		}
		for _, old := range same {
			if old.Open(a.Created) {
				made = *old
				return nil
			}
		}
		_, err = tx.ExecContext(ctx, `INSERT INTO approvals
			(id, call, digest, tool, arguments, identity, reason, state, created, expires, answered, answered_by, comment, used)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 0, '', '', 0)`,
			a.ID, a.Call, a.Digest, a.Tool, string(a.Arguments), string(identity), a.Reason,
			string(approval.Pending), instant(a.Created), instant(a.Expires))
		if isTaken(err) {
			return toolroom.Errorf(toolroom.CodeConflict, "there is an approval %s already", a.ID)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return &made, nil
}

// Approval implements [approval.Store].
func (s *Store) Approval(ctx context.Context, id string, now time.Time) (*approval.Approval, error) {
	a, err := findApproval(ctx, s.reader, id)
	if err != nil {
		return nil, s.fail(ctx, "read an approval", err)
	}
	a.Settle(now)
	return a, nil
}

// Approvals implements [approval.Store].
func (s *Store) Approvals(ctx context.Context, state approval.State, now time.Time) ([]*approval.Approval, error) {
	where, args := "", []any(nil)
	switch state {
	case "":
	case approval.Pending:
		where, args = "WHERE state = 'pending' AND expires > ? ", []any{instant(now)}
	case approval.Expired:
		where, args = "WHERE state = 'pending' AND expires <= ? ", []any{instant(now)}
	default:
		where, args = "WHERE state = ? ", []any{string(state)}
	}
	list, err := selectAll(ctx, s.reader, scanApproval, selectApproval+where+"ORDER BY seq", args...)
	for _, a := range list {
		a.Settle(now)
	}
	return list, s.fail(ctx, "read approvals", err)
}

// AnswerApproval implements [approval.Store].
func (s *Store) AnswerApproval(ctx context.Context, id string, answer approval.Answer, now time.Time) (*approval.Approval, error) {
	return s.changeApproval(ctx, "answer an approval", id, func(a *approval.Approval) error {
		return a.Decide(answer, now)
	})
}

// UseApproval implements [approval.Store].
func (s *Store) UseApproval(ctx context.Context, id string, now time.Time) error {
	_, err := s.changeApproval(ctx, "use an approval", id, func(a *approval.Approval) error {
		return a.Use(now)
	})
	return err
}

func (s *Store) changeApproval(ctx context.Context, doing, id string, change func(*approval.Approval) error) (a *approval.Approval, err error) {
	err = s.write(ctx, doing, func(tx *sql.Tx) error {
		if a, err = findApproval(ctx, tx, id); err != nil {
			return err
		}
		if err := change(a); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, "UPDATE approvals SET state = ?, expires = ?, answered = ?, answered_by = ?, comment = ?, used = ? WHERE id = ?",
			string(a.State), instant(a.Expires), instant(a.Answered), a.By, a.Comment, instant(a.Used), id)
		return err
	})
	if err != nil {
		return nil, err
	}
	return a, nil
}

func findApproval(ctx context.Context, db rowQuerier, id string) (*approval.Approval, error) {
	a, err := scanApproval(db.QueryRowContext(ctx, selectApproval+"WHERE id = ?", id))
	if errors.Is(err, sql.ErrNoRows) {
		return nil, toolroom.Errorf(toolroom.CodeNotFound, "there is no approval %q", id).
			WithHint("list the open ones with: toolroom approve")
	}
	return a, err
}

func scanApproval(row scanner) (*approval.Approval, error) {
	a := &approval.Approval{}
	err := row.Scan(&a.ID, &a.Call, &a.Digest, &a.Tool, rawColumn{&a.Arguments}, jsonColumn{&a.Identity}, &a.Reason, &a.State,
		timeColumn{&a.Created}, timeColumn{&a.Expires}, timeColumn{&a.Answered}, &a.By, &a.Comment, timeColumn{&a.Used})
	if err != nil {
		return nil, err
	}
	return a, nil
}
