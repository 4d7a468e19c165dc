package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/artifact"
	"github.com/toolroom/toolroom/internal/identity"
)

// subjectFilter selects the rows of all callers of a subject, however they are narrowed; see
// [identity.Owner]. It takes the subject three times.
const subjectFilter = "(owner = ? OR substr(owner, 1, length(?) + 1) = ? || char(10))"

const artifactColumns = "handle, owner, kind, name, mime, size, created, expires, labels"

// AddArtifact implements [artifact.Index].
func (s *Store) AddArtifact(ctx context.Context, e *artifact.Entry, limits artifact.Limits) error {
	return s.write(ctx, "record an artifact", func(tx *sql.Tx) error {
		used, err := artifactUsage(ctx, tx, e.Owner, e.Kind, e.Created)
		if err != nil {
			return err
		}
		if err := limits.Admit(e.Kind, used, e.Size); err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, "INSERT INTO artifacts ("+artifactColumns+") VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
			e.Handle, e.Owner, string(e.Kind), e.Name, e.MIMEType, e.Size, nanosOf(e.Created), nanosOf(e.Expires), jsonUnlessEmpty{e.Labels})
		if isTaken(err) {
			return toolroom.Errorf(toolroom.CodeConflict, "artifact %s already exists", e.Handle)
		}
		return err
	})
}

// ArtifactUsage implements [artifact.Index].
func (s *Store) ArtifactUsage(ctx context.Context, owner string, kind artifact.Kind, now time.Time) (artifact.Usage, error) {
	used, err := artifactUsage(ctx, s.reader, owner, kind, now)
	return used, s.fail(ctx, "count artifacts", err)
}

func artifactUsage(ctx context.Context, db rowQuerier, owner string, kind artifact.Kind, now time.Time) (used artifact.Usage, err error) {
	const query = "SELECT count(*), coalesce(sum(size), 0) FROM artifacts WHERE " + subjectFilter + " AND kind = ? AND expires > ?"
	subject := identity.Subject(owner)
	err = db.QueryRowContext(ctx, query, subject, subject, subject, string(kind), nanosOf(now)).Scan(&used.Entries, &used.Bytes)
	return used, err
}

// Artifact implements [artifact.Index].
func (s *Store) Artifact(ctx context.Context, owner, handle string, now time.Time) (*artifact.Entry, error) {
	const query = "SELECT " + artifactColumns + " FROM artifacts WHERE handle = ? AND expires > ?"
	e, err := scanArtifact(s.reader.QueryRowContext(ctx, query, handle, nanosOf(now)))
	if errors.Is(err, sql.ErrNoRows) || err == nil && !identity.OwnerReaches(owner, e.Owner) {
		return nil, artifact.NotFound(handle)
	}
	return e, s.fail(ctx, "look up an artifact", err)
}

// Artifacts implements [artifact.Index].
func (s *Store) Artifacts(ctx context.Context, owner string, now time.Time) ([]*artifact.Entry, error) {
	const query = "SELECT " + artifactColumns + " FROM artifacts WHERE " + subjectFilter + " AND expires > ? ORDER BY seq"
	subject := identity.Subject(owner)
	list, err := selectAll(ctx, s.reader, scanArtifact, query, subject, subject, subject, nanosOf(now))
	list = slices.DeleteFunc(list, func(e *artifact.Entry) bool { return !identity.OwnerReaches(owner, e.Owner) })
	return list, s.fail(ctx, "list artifacts", err)
}

// DeleteArtifact implements [artifact.Index].
func (s *Store) DeleteArtifact(ctx context.Context, owner, handle string, now time.Time) error {
	e, err := s.Artifact(ctx, owner, handle, now)
	if err != nil {
		return err
	}
	const remove = "DELETE FROM artifacts WHERE handle = ? AND owner = ? AND expires > ?"
	return s.change(ctx, "delete an artifact", artifact.NotFound(handle), remove, handle, e.Owner, nanosOf(now))
}

// SweepArtifacts implements [artifact.Index].
func (s *Store) SweepArtifacts(ctx context.Context, now time.Time) ([]*artifact.Entry, error) {
	const remove = "DELETE FROM artifacts WHERE expires <= ? RETURNING " + artifactColumns
	var list []*artifact.Entry
	err := s.write(ctx, "delete expired artifacts", func(tx *sql.Tx) (err error) {
		list, err = selectAll(ctx, tx, scanArtifact, remove, nanosOf(now))
		return err
	})
	if err != nil {
		return nil, err
	}
	return list, nil
}

// ArtifactHandles implements [artifact.Index].
func (s *Store) ArtifactHandles(ctx context.Context) (map[string]bool, error) {
	list, err := selectAll(ctx, s.reader, scanOne[string], "SELECT handle FROM artifacts")
	if err != nil {
		return nil, s.fail(ctx, "list artifacts", err)
	}
	handles := make(map[string]bool, len(list))
	for _, handle := range list {
		handles[handle] = true
	}
	return handles, nil
}

func scanArtifact(row scanner) (*artifact.Entry, error) {
	e := &artifact.Entry{}
	err := row.Scan(&e.Handle, &e.Owner, &e.Kind, &e.Name, &e.MIMEType, &e.Size, timeColumn{&e.Created}, timeColumn{&e.Expires}, jsonColumn{&e.Labels})
	if err != nil {
		return nil, err
	}
	return e, nil
}
