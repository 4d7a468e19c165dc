package sqlite

import (
	"context"
	"database/sql"
	"errors"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/release"
)

const versionColumns = "tool, number, digest, status, reason, message, author, created, spec"

func scanVersion(row scanner) (*release.Version, error) {
	v := &release.Version{}
	err := row.Scan(&v.Tool, &v.Number, &v.Digest, &v.Status, &v.Reason, &v.Message, &v.Author, timeColumn{&v.Created}, jsonColumn{&v.Spec})
	return v, err
}

func scanRelease(row scanner) (release.Release, error) {
	var r release.Release
	err := row.Scan(&r.Tool, &r.Environment, &r.Version, &r.Canary, &r.Weight, jsonColumn{&r.CanaryRule})
	return r, err
}

// PutVersion implements [release.Store].
func (s *Store) PutVersion(ctx context.Context, v *release.Version, base int) (stored *release.Version, created bool, err error) {
	err = s.write(ctx, "store a version", func(tx *sql.Tx) error {
		newest, err := scanVersion(tx.QueryRowContext(ctx, "SELECT "+versionColumns+" FROM tool_versions WHERE tool = ? ORDER BY number DESC LIMIT 1", v.Tool))
		switch {
		case errors.Is(err, sql.ErrNoRows):
			newest = &release.Version{}
		case err != nil:
			return err
		case newest.Digest == v.Digest:
			stored = newest
			return nil
		}
		if base >= 0 && newest.Number > base {
			e := toolroom.Errorf(toolroom.CodeConflict, "%s has a newer version %d by %s; yours is based on version %d", v.Tool, newest.Number, newest.Author, base)
			e.Details = map[string]any{"newest": newest.Number, "base": base}
			return e.WithHint("look at the difference, then push with the base %d", newest.Number).WithCLIHint("see the difference: toolroom tool diff %s %d %d; then push with --base %d", v.Tool, base, newest.Number, newest.Number)
		}
		next := *v
		next.Number = newest.Number + 1
		if err := insertVersion(ctx, tx, &next); err != nil {
			return err
		}
		stored, created = &next, true
		return appendEntry(ctx, tx, release.Entry{
			Time: next.Created, Who: next.Author, Action: release.ActionPush, Tool: next.Tool, Version: next.Number, Previous: newest.Number, Reason: next.Message,
		})
	})
	if err != nil {
		return nil, false, err
	}
	return stored, created, nil
}

func appendEntry(ctx context.Context, tx *sql.Tx, e release.Entry) error {
	_, err := tx.ExecContext(ctx, "INSERT INTO release_log (tool, body) VALUES (?, ?)", e.Tool, asJSON{e})
	return err
}

// Version implements [release.Store].
func (s *Store) Version(ctx context.Context, tool string, number int) (*release.Version, error) {
	v, err := scanVersion(s.reader.QueryRowContext(ctx, "SELECT "+versionColumns+" FROM tool_versions WHERE tool = ? AND number = ?", tool, number))
	if errors.Is(err, sql.ErrNoRows) {
		return nil, noVersion(tool, number)
	}
	return v, s.fail(ctx, "read a version", err)
}

func noVersion(tool string, number int) error {
	return toolroom.Errorf(toolroom.CodeNotFound, "%s has no version %d", tool, number).WithCLIHint("list its versions: toolroom tool show %s", tool)
}

// Versions implements [release.Store].
func (s *Store) Versions(ctx context.Context, tool string) ([]*release.Version, error) {
	list, err := selectAll(ctx, s.reader, scanVersion, "SELECT "+versionColumns+" FROM tool_versions WHERE tool = ? ORDER BY number DESC", tool)
	return list, s.fail(ctx, "read versions", err)
}

const headColumns = "v.tool, v.source, v.number, v.digest, v.status, v.reason, r.version IS NOT NULL"

const selectHeads = " FROM tool_versions v LEFT JOIN tool_releases r ON r.tool = v.tool AND r.version = v.number AND r.environment = 'prod' "

func scanHead(row scanner) (h release.Head, err error) {
	err = row.Scan(&h.Tool, &h.Source, &h.Number, &h.Digest, &h.Status, &h.Reason, &h.Served)
	return h, err
}

// VersionedTools implements [release.Store].
func (s *Store) VersionedTools(ctx context.Context) ([]release.Head, error) {
	list, err := selectAll(ctx, s.reader, scanHead, "SELECT "+headColumns+selectHeads+
		"WHERE v.number = (SELECT max(number) FROM tool_versions w WHERE w.tool = v.tool) ORDER BY v.tool")
	return list, s.fail(ctx, "read tools", err)
}

// Heads implements [release.Store].
func (s *Store) Heads(ctx context.Context, namespace string) ([]release.Head, error) {
	list, err := selectAll(ctx, s.reader, scanHead, "SELECT "+headColumns+selectHeads+
		"WHERE v.tool >= ? AND v.tool < ? ORDER BY v.tool, v.number DESC", namespace+":", namespace+";") // ; follows :
	return list, s.fail(ctx, "read versions", err)
}

// PutOffers implements [release.Store].
func (s *Store) PutOffers(ctx context.Context, offers []release.Offer) error {
	if len(offers) == 0 {
		return nil
	}
	return s.write(ctx, "store definitions", func(tx *sql.Tx) error {
		for _, o := range offers {
			if err := putOffer(ctx, tx, o); err != nil {
				return err
			}
		}
		return nil
	})
}

func putOffer(ctx context.Context, tx *sql.Tx, o release.Offer) error {
	v := o.Version
	e := release.Entry{Time: v.Created, Who: v.Author, Action: release.ActionOffer, Tool: v.Tool}
	err := tx.QueryRowContext(ctx, "SELECT number FROM tool_versions WHERE tool = ? AND digest = ? ORDER BY number DESC LIMIT 1", v.Tool, v.Digest).Scan(&v.Number)
	created := errors.Is(err, sql.ErrNoRows)
	if err != nil && !created {
		return err
	}
	if created {
		if err := tx.QueryRowContext(ctx, "SELECT coalesce(max(number), 0) + 1 FROM tool_versions WHERE tool = ?", v.Tool).Scan(&v.Number); err != nil {
			return err
		}
		if err := insertVersion(ctx, tx, v); err != nil {
			return err
		}
		if err := forgetOffers(ctx, tx, v); err != nil {
			return err
		}
	}
	e.Version = v.Number
	var served int
	err = tx.QueryRowContext(ctx, "SELECT version FROM tool_releases WHERE tool = ? AND environment = 'prod'", v.Tool).Scan(&served)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return err
	}
	if o.Release && served == o.From && served != v.Number {
		e.Environment, e.Previous = release.Prod, served
		if _, err := tx.ExecContext(ctx, `INSERT INTO tool_releases (tool, environment, version) VALUES (?, 'prod', ?)
			ON CONFLICT (tool, environment) DO UPDATE SET version = excluded.version`, v.Tool, v.Number); err != nil {
			return err
		}
		if err := activate(ctx, tx, v.Tool, v.Number, o.Demoted); err != nil {
			return err
		}
	} else if !created {
		return nil
	}
	return appendEntry(ctx, tx, e)
}

// keptOffers is how many definitions of a tool are kept on which no person has decided. A
// source may change them with each list.
const keptOffers = 100

// forgetOffers removes the oldest definitions of a tool, unless one is served or a person has
// decided on it.
func forgetOffers(ctx context.Context, tx *sql.Tx, newest *release.Version) error {
	old := newest.Number - keptOffers
	if old < 1 {
		return nil
	}
	if _, err := tx.ExecContext(ctx, `DELETE FROM tool_versions WHERE tool = ?1 AND number <= ?2 AND source <> '' AND reason = ''
		AND number NOT IN (SELECT version FROM tool_releases WHERE tool = ?1)
		AND number NOT IN (SELECT decided.value FROM release_log l, json_each(json_array(l.body ->> 'version', coalesce(l.body ->> 'previous', 0))) decided
			WHERE l.tool = ?1 AND l.body ->> 'action' <> 'offer')`, newest.Tool, old); err != nil {
		return err
	}
	_, err := tx.ExecContext(ctx, `DELETE FROM release_log WHERE tool = ?1 AND body ->> 'action' = 'offer' AND body ->> 'version' <= ?2
		AND body ->> 'version' NOT IN (SELECT number FROM tool_versions WHERE tool = ?1)`, newest.Tool, old)
	return err
}

// activate makes a version the active one of its tool.
func activate(ctx context.Context, tx *sql.Tx, tool string, number int, demoted release.Status) error {
	if _, err := tx.ExecContext(ctx, "UPDATE tool_versions SET status = ? WHERE tool = ? AND status = 'active'", string(demoted), tool); err != nil {
		return err
	}
	_, err := tx.ExecContext(ctx, "UPDATE tool_versions SET status = 'active', reason = '' WHERE tool = ? AND number = ?", tool, number)
	return err
}

func insertVersion(ctx context.Context, tx *sql.Tx, v *release.Version) error {
	_, err := tx.ExecContext(ctx, "INSERT INTO tool_versions ("+versionColumns+", source) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
		v.Tool, v.Number, v.Digest, string(v.Status), v.Reason, v.Message, v.Author, nanosOf(v.Created), asJSON{v.Spec}, v.Spec.Source)
	return err
}

// SetVersionStatus implements [release.Store].
func (s *Store) SetVersionStatus(ctx context.Context, tool string, number int, status release.Status, e release.Entry) error {
	return s.write(ctx, "change a version's status", func(tx *sql.Tx) error {
		done, err := tx.ExecContext(ctx, "UPDATE tool_versions SET status = ?, reason = ? WHERE tool = ? AND number = ?", string(status), e.Reason, tool, number)
		if err != nil {
			return err
		}
		if n, err := done.RowsAffected(); err != nil || n == 0 {
			return errors.Join(err, noVersion(tool, number))
		}
		return appendEntry(ctx, tx, e)
	})
}

// MoveRelease implements [release.Store].
func (s *Store) MoveRelease(ctx context.Context, m release.Move) error {
	return s.write(ctx, "move a release", func(tx *sql.Tx) error {
		to := m.To
		current, err := scanRelease(tx.QueryRowContext(ctx, "SELECT tool, environment, version, canary, weight, canary_rule FROM tool_releases WHERE tool = ? AND environment = ?", to.Tool, to.Environment))
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return err
		}
		if current.Version != m.From || current.Canary != m.FromCanary {
			e := toolroom.Errorf(toolroom.CodeConflict, "%s in %s serves version %d and canary %d, not %d and %d: someone else has changed it", to.Tool, to.Environment, current.Version, current.Canary, m.From, m.FromCanary)
			return e.WithCLIHint("see who: toolroom tool log %s", to.Tool)
		}
		for _, number := range []int{to.Version, to.Canary} {
			if number == 0 {
				continue
			}
			var found int
			if err := tx.QueryRowContext(ctx, "SELECT count(*) FROM tool_versions WHERE tool = ? AND number = ?", to.Tool, number).Scan(&found); err != nil {
				return err
			}
			if found == 0 {
				return noVersion(to.Tool, number)
			}
		}
		if to.Version == 0 {
			_, err = tx.ExecContext(ctx, "DELETE FROM tool_releases WHERE tool = ? AND environment = ?", to.Tool, to.Environment)
		} else {
			_, err = tx.ExecContext(ctx, `INSERT INTO tool_releases (tool, environment, version, canary, weight, canary_rule) VALUES (?, ?, ?, ?, ?, ?)
				ON CONFLICT (tool, environment) DO UPDATE SET version = excluded.version, canary = excluded.canary, weight = excluded.weight, canary_rule = excluded.canary_rule`,
				to.Tool, to.Environment, to.Version, to.Canary, to.Weight, asJSON{to.CanaryRule})
		}
		if err != nil {
			return err
		}
		if to.Environment == release.Prod && to.Version != m.From {
			if err := activate(ctx, tx, to.Tool, to.Version, m.Demoted); err != nil {
				return err
			}
		}
		return appendEntry(ctx, tx, m.Entry)
	})
}

// Releases implements [release.Store].
func (s *Store) Releases(ctx context.Context) ([]release.Release, error) {
	list, err := selectAll(ctx, s.reader, scanRelease, "SELECT tool, environment, version, canary, weight, canary_rule FROM tool_releases ORDER BY tool, environment")
	return list, s.fail(ctx, "read releases", err)
}

// ReleaseRevision implements [release.Store].
func (s *Store) ReleaseRevision(ctx context.Context) (int64, error) {
	var n int64
	err := s.reader.QueryRowContext(ctx, "SELECT coalesce(max(seq), 0) FROM release_log").Scan(&n)
	return n, s.fail(ctx, "read the log of releases", err)
}

// ReleaseLog implements [release.Store].
func (s *Store) ReleaseLog(ctx context.Context, tool string, limit int) ([]release.Entry, error) {
	list, err := selectAll(ctx, s.reader, func(row scanner) (release.Entry, error) {
		var e release.Entry
		var seq int64
		err := row.Scan(&seq, jsonColumn{&e})
		e.Seq = seq
		return e, err
	}, "SELECT seq, body FROM release_log WHERE tool = ? OR ? = '' ORDER BY seq DESC LIMIT ?", tool, tool, limit)
	return list, s.fail(ctx, "read the log of releases", err)
}

// PutShadowRun implements [release.Store].
func (s *Store) PutShadowRun(ctx context.Context, r *release.ShadowRun, keep int) error {
	return s.write(ctx, "store a shadow run", func(tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, "INSERT INTO shadow_runs (tool, environment, version, body) VALUES (?, ?, ?, ?)", r.Tool, r.Environment, r.Version, asJSON{r}); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, `DELETE FROM shadow_runs WHERE tool = ?1 AND environment = ?2 AND version = ?3 AND seq <=
			(SELECT seq FROM shadow_runs WHERE tool = ?1 AND environment = ?2 AND version = ?3 ORDER BY seq DESC LIMIT 1 OFFSET ?4)`,
			r.Tool, r.Environment, r.Version, keep)
		return err
	})
}

// ShadowRuns implements [release.Store].
func (s *Store) ShadowRuns(ctx context.Context, tool, environment string, version, limit int) ([]*release.ShadowRun, error) {
	list, err := selectAll(ctx, s.reader, scanJSON[*release.ShadowRun],
		"SELECT body FROM shadow_runs WHERE tool = ? AND environment = ? AND version = ? ORDER BY seq DESC LIMIT ?", tool, environment, version, limit)
	return list, s.fail(ctx, "read shadow runs", err)
}

// PutCard implements [release.Store].
func (s *Store) PutCard(ctx context.Context, c release.Card) error {
	return s.exec(ctx, "store a card", "INSERT INTO tool_cards (tool, body) VALUES (?, ?) ON CONFLICT (tool) DO UPDATE SET body = excluded.body", c.Tool, asJSON{c})
}

// Cards implements [release.Store].
func (s *Store) Cards(ctx context.Context) ([]release.Card, error) {
	list, err := selectAll(ctx, s.reader, scanJSON[release.Card], "SELECT body FROM tool_cards ORDER BY tool")
	return list, s.fail(ctx, "read cards", err)
}

// PutCase implements [release.Store].
func (s *Store) PutCase(ctx context.Context, c *release.Case) error {
	return s.exec(ctx, "store a case", "INSERT INTO tool_cases (tool, name, body) VALUES (?, ?, ?) ON CONFLICT (tool, name) DO UPDATE SET body = excluded.body", c.Tool, c.Name, asJSON{c})
}

// Cases implements [release.Store].
func (s *Store) Cases(ctx context.Context, tool string) ([]*release.Case, error) {
	list, err := selectAll(ctx, s.reader, scanJSON[*release.Case], "SELECT body FROM tool_cases WHERE tool = ? OR ? = '' ORDER BY tool, name", tool, tool)
	return list, s.fail(ctx, "read cases", err)
}

// RemoveCase implements [release.Store].
func (s *Store) RemoveCase(ctx context.Context, tool, name string) error {
	none := toolroom.Errorf(toolroom.CodeNotFound, "%s has no case %q", tool, name).WithCLIHint("list them: toolroom tool case list %s", tool)
	return s.change(ctx, "remove a case", none, "DELETE FROM tool_cases WHERE tool = ? AND name = ?", tool, name)
}
