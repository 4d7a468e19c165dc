package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/run"
)

// AskJob implements [run.QuestionStore].
func (s *Store) AskJob(ctx context.Context, id string, fence int64, questions []run.JobQuestion) error {
	return s.write(ctx, "store the questions of a job", func(tx *sql.Tx) error {
		j, err := findJob(ctx, tx, id)
		switch {
		case err != nil:
			return err
		case j.Fence != fence || j.State != toolroom.JobRunning:
			return toolroom.Errorf(toolroom.CodeConflict, "job %s now belongs to another process", id)
		}
		for _, q := range questions {
			_, err := tx.ExecContext(ctx, "INSERT OR IGNORE INTO job_questions (job, key, method, params, sent, answer, asked) VALUES (?, ?, ?, ?, ?, '', ?)",
				id, q.Key, q.Method, string(q.Params), string(q.Sent), nanosOf(q.Asked))
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// JobQuestions implements [run.QuestionStore].
func (s *Store) JobQuestions(ctx context.Context, id string) ([]run.JobQuestion, error) {
	questions, err := selectAll(ctx, s.reader, func(row scanner) (q run.JobQuestion, err error) {
		err = row.Scan(&q.Key, &q.Method, rawColumn{&q.Params}, rawColumn{&q.Sent}, rawColumn{&q.Answer}, timeColumn{&q.Asked})
		return q, err
	}, "SELECT key, method, params, sent, answer, asked FROM job_questions WHERE job = ? ORDER BY key", id)
	return questions, s.fail(ctx, "read the questions of a job", err)
}

// AnswerJob implements [run.QuestionStore].
func (s *Store) AnswerJob(ctx context.Context, id string, answers map[string]json.RawMessage) error {
	return s.write(ctx, "store the answers to a job", func(tx *sql.Tx) error {
		for key, answer := range answers {
			_, err := tx.ExecContext(ctx, "UPDATE job_questions SET answer = ? WHERE job = ? AND key = ? AND answer = ''", string(answer), id, key)
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// UpdateJobState implements [run.QuestionStore].
func (s *Store) UpdateJobState(ctx context.Context, id string, fence int64, state json.RawMessage) error {
	return s.exec(ctx, "record the state of a job", "UPDATE jobs SET resume = ? WHERE id = ? AND fence = ? AND state = 'running' AND resume <> ''", string(state), id, fence)
}

// CancelJob implements [run.QuestionStore].
func (s *Store) CancelJob(ctx context.Context, id string) error {
	return s.write(ctx, "cancel a job", func(tx *sql.Tx) error {
		if _, err := findJob(ctx, tx, id); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, "UPDATE jobs SET cancelled = 1 WHERE id = ? AND state <> 'done'", id)
		return err
	})
}
