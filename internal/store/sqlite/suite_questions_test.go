package sqlite

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/run"
	"github.com/toolroom/toolroom/source"
)

func question(key string) run.JobQuestion {
	return run.JobQuestion{Key: key, Question: source.Question{Method: source.MethodRoots, Params: json.RawMessage(`{"n":9007199254740993}`), Sent: json.RawMessage(`{"odd":1.50}`)}, Asked: start}
}

var questionTests = []test{
	{"questions of a job are kept with their answers, also after reopening", func(t *testing.T, d database) {
		s := d.open(t)
		job := newJob("job_1", start)
		job.Answers = []string{source.MethodRoots}
		must(t, s.CreateJob(t.Context(), job))
		j := claimJob(t, s, start)
		if diff := cmp.Diff(job.Answers, j.Answers); diff != "" {
			t.Error(diff)
		}
		must(t, s.AskJob(t.Context(), "job_1", j.Fence, []run.JobQuestion{question("a"), question("b")}))
		must(t, s.AnswerJob(t.Context(), "job_1", map[string]json.RawMessage{"a": json.RawMessage(`{"x":1}`), "never asked": json.RawMessage(`{}`)}))
		// Existing questions and answers stay unchanged.
		must(t, s.AskJob(t.Context(), "job_1", j.Fence, []run.JobQuestion{question("a")}))
		must(t, s.AnswerJob(t.Context(), "job_1", map[string]json.RawMessage{"a": json.RawMessage(`{"x":2}`)}))
		answered := question("a")
		answered.Answer = json.RawMessage(`{"x":1}`)
		got, err := d.open(t).JobQuestions(t.Context(), "job_1")
		must(t, err)
		if diff := cmp.Diff([]run.JobQuestion{answered, question("b")}, got); diff != "" {
			t.Errorf("-want +got\n%s", diff)
		}
	}},
	{"the state that a job is carried on from becomes newer while the job is one's own", func(t *testing.T, d database) {
		s := d.open(t)
		job := newJob("job_1", start)
		job.State, job.Resume, job.Fence, job.Lease = toolroom.JobRunning, json.RawMessage(`{"n":1}`), 1, start.Add(time.Minute)
		must(t, s.CreateJob(t.Context(), job))
		must(t, s.UpdateJobState(t.Context(), "job_1", 1, json.RawMessage(`{"n":9007199254740993}`)))
		must(t, s.UpdateJobState(t.Context(), "job_1", 0, json.RawMessage(`{"n":3}`)))
		if got := string(getJob(t, s, "job_1").Resume); got != `{"n":9007199254740993}` {
			t.Errorf("the state is %s", got)
		}
		// A job that cannot be resumed has no state, and gets none.
		must(t, s.CreateJob(t.Context(), newJob("job_2", start)))
		must(t, s.UpdateJobState(t.Context(), "job_2", claimJob(t, s, start).Fence, json.RawMessage(`{"n":4}`)))
		if got := getJob(t, s, "job_2").Resume; got != nil {
			t.Errorf("the state is %s", got)
		}
	}},
	{"a job that belongs to another process asks nothing", func(t *testing.T, d database) {
		s := d.open(t)
		must(t, s.CreateJob(t.Context(), newJob("job_1", start)))
		j := claimJob(t, s, start)
		wantCode(t, "AskJob", s.AskJob(t.Context(), "job_1", j.Fence-1, []run.JobQuestion{question("a")}), toolroom.CodeConflict)
		must(t, s.FinishJob(t.Context(), "job_1", j.Fence, &toolroom.Result{}, start))
		wantCode(t, "AskJob", s.AskJob(t.Context(), "job_1", j.Fence, []run.JobQuestion{question("a")}), toolroom.CodeConflict)
	}},
	{"a job that is open can be cancelled, one that is done stays done", func(t *testing.T, d database) {
		s := d.open(t)
		wantCode(t, "CancelJob", s.CancelJob(t.Context(), "none"), toolroom.CodeNotFound)
		must(t, s.CreateJob(t.Context(), newJob("job_1", start)))
		must(t, s.CancelJob(t.Context(), "job_1"))
		j := claimJob(t, s, start)
		if !j.Cancelled {
			t.Error("the claim does not say that the job is cancelled")
		}
		must(t, s.FinishJob(t.Context(), "job_1", j.Fence, &toolroom.Result{}, start))
		must(t, s.CancelJob(t.Context(), "job_1"))
		must(t, s.CreateJob(t.Context(), newJob("job_2", start)))
		j = claimJob(t, s, start)
		must(t, s.FinishJob(t.Context(), "job_2", j.Fence, &toolroom.Result{}, start))
		must(t, s.CancelJob(t.Context(), "job_2"))
		if getJob(t, s, "job_2").Cancelled {
			t.Error("a job that is done was cancelled")
		}
	}},
}
