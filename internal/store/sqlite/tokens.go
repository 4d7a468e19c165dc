package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/token"
)

const selectToken = `SELECT id, name, hash, subject, groups, agent, provider, skill, tool_set, environment, created, expires, last_used, revoked FROM tokens `

// CreateToken implements [token.Store].
func (s *Store) CreateToken(ctx context.Context, t *token.Token) error {
	_, err := s.writer.ExecContext(ctx, `INSERT INTO tokens
		(id, name, hash, subject, groups, agent, provider, skill, tool_set, environment, created, expires, last_used, revoked)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		t.ID, t.Name, t.Hash, t.Subject, asJSON{t.Groups}, t.Agent, t.Provider, t.Skill, t.Set, t.Environment,
		nanosOf(t.Created), nanosOf(t.Expires), nanosOf(t.LastUsed), nanosOf(t.Revoked))
	if isTaken(err) {
		return toolroom.Errorf(toolroom.CodeConflict, "token %s already exists", t.ID)
	}
	return s.fail(ctx, "store a token", err)
}

// Token implements [token.Store].
func (s *Store) Token(ctx context.Context, id string) (*token.Token, error) {
	t, err := scanToken(s.reader.QueryRowContext(ctx, selectToken+"WHERE id = ?", id))
	if errors.Is(err, sql.ErrNoRows) {
		return nil, noToken(id)
	}
	return t, s.fail(ctx, "read a token", err)
}

// Tokens implements [token.Store].
func (s *Store) Tokens(ctx context.Context) ([]*token.Token, error) {
	list, err := selectAll(ctx, s.reader, scanToken, selectToken+"ORDER BY seq")
	return list, s.fail(ctx, "read tokens", err)
}

// RevokeToken implements [token.Store].
func (s *Store) RevokeToken(ctx context.Context, id string, now time.Time) error {
	const revoke = "UPDATE tokens SET revoked = iif(revoked = 0, ?, revoked) WHERE id = ?"
	return s.change(ctx, "revoke a token", noToken(id), revoke, nanosOf(now), id)
}

// TouchToken implements [token.Store].
func (s *Store) TouchToken(ctx context.Context, id string, now time.Time) error {
	return s.exec(ctx, "record the use of a token", "UPDATE tokens SET last_used = ? WHERE id = ?", nanosOf(now), id)
}

func noToken(id string) error {
	return toolroom.Errorf(toolroom.CodeNotFound, "token %q not found", id).
		WithCLIHint("list tokens: toolroom token list")
}

func scanToken(row scanner) (*token.Token, error) {
	t := &token.Token{}
	err := row.Scan(&t.ID, &t.Name, &t.Hash, &t.Subject, jsonColumn{&t.Groups}, &t.Agent, &t.Provider, &t.Skill, &t.Set, &t.Environment,
		timeColumn{&t.Created}, timeColumn{&t.Expires}, timeColumn{&t.LastUsed}, timeColumn{&t.Revoked})
	if err != nil {
		return nil, err
	}
	return t, nil
}

// keepEnded is how long the end of a session is kept after the session would have expired: a
// clock may be set back.
const keepEnded = 7 * 24 * time.Hour

// EndSession implements [token.Store].
func (s *Store) EndSession(ctx context.Context, id string, expires time.Time) error {
	return s.write(ctx, "end a session of the page", func(tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, "DELETE FROM ended_sessions WHERE expires < ?", nanosOf(time.Now().Add(-keepEnded))); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, "INSERT INTO ended_sessions (id, expires) VALUES (?, ?) ON CONFLICT DO NOTHING", id, nanosOf(expires))
		return err
	})
}

// SessionEnded implements [token.Store].
func (s *Store) SessionEnded(ctx context.Context, id string) (bool, error) {
	var ended bool
	err := s.reader.QueryRowContext(ctx, "SELECT EXISTS (SELECT 1 FROM ended_sessions WHERE id = ?)", id).Scan(&ended)
	return ended, s.fail(ctx, "read the end of a session", err)
}
