package sqlite

import (
	"context"
	"database/sql"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/approval"
)

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
