package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/toolroom/toolroom/internal/search"
)

// Lessons implements [search.LessonStore].
func (s *Store) Lessons(ctx context.Context) ([]search.LessonRecord, error) {
	list, err := selectAll(ctx, s.reader, scanLesson, "SELECT team, tool, caller, at, terms FROM lessons ORDER BY at DESC, team, tool, caller")
	return list, s.fail(ctx, "read lessons", err)
}

// UpdateLesson implements [search.LessonStore].
func (s *Store) UpdateLesson(ctx context.Context, key search.LessonKey, change func(search.LessonRecord) search.LessonRecord) error {
	return s.write(ctx, "store a lesson", func(tx *sql.Tx) error {
		old, err := scanLesson(tx.QueryRowContext(ctx, "SELECT team, tool, caller, at, terms FROM lessons WHERE team = ? AND tool = ? AND caller = ?", key.Team, key.Tool, key.Caller))
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return err
		}
		old.LessonKey = key
		next := change(old)
		_, err = tx.ExecContext(ctx, `INSERT INTO lessons (team, tool, caller, at, terms) VALUES (?, ?, ?, ?, ?)
			ON CONFLICT (team, tool, caller) DO UPDATE SET at = excluded.at, terms = excluded.terms`,
			key.Team, key.Tool, key.Caller, nanosOf(next.At), jsonUnlessEmpty{next.Terms})
		return err
	})
}

// ForgetLessons implements [search.LessonStore].
func (s *Store) ForgetLessons(ctx context.Context, tool string) (int, error) {
	result, err := s.writer.ExecContext(ctx, "DELETE FROM lessons WHERE ? = '' OR tool = ?", tool, tool)
	if err != nil {
		return 0, s.fail(ctx, "forget lessons", err)
	}
	n, err := result.RowsAffected()
	return int(n), s.fail(ctx, "forget lessons", err)
}

// PruneLessons implements [search.LessonStore].
func (s *Store) PruneLessons(ctx context.Context, before time.Time, latest int) error {
	return s.exec(ctx, "remove old lessons", `DELETE FROM lessons WHERE at < ? OR (team, tool, caller) IN
		(SELECT team, tool, caller FROM lessons ORDER BY at DESC, team, tool, caller LIMIT -1 OFFSET ?)`, nanosOf(before), latest)
}

func scanLesson(row scanner) (search.LessonRecord, error) {
	var l search.LessonRecord
	err := row.Scan(&l.Team, &l.Tool, &l.Caller, timeColumn{&l.At}, jsonColumn{&l.Terms})
	return l, err
}
