package run_test

import (
	"context"
	"encoding/json"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/run"
	"github.com/toolroom/toolroom/internal/store/sqlite"
	"github.com/toolroom/toolroom/source"
)

// twice asks two things one after the other.
func twice(runs *atomic.Int64) func(context.Context, *source.Request) (*source.Output, error) {
	return func(ctx context.Context, req *source.Request) (*source.Output, error) {
		runs.Add(1)
		var got []json.RawMessage
		for range 2 {
			a, err := source.Elicit(ctx, req.Ask, "name", "Your name?", json.RawMessage(`{"type":"object"}`))
			if err != nil {
				return nil, err
			}
			got = append(got, a.Content)
		}
		value, err := json.Marshal(got)
		return &source.Output{Value: value}, err
	}
}

// process is a runner and its worker on a store that others share.
type process struct {
	*bench
	worker *run.Worker
	stop   func()
}

func startProcess(t *testing.T, path, owner string, runs *atomic.Int64) *process {
	t.Helper()
	b := newBench(t, withStore(openStore(t, path), owner))
	yes := true
	asking := tool("ask:twice")
	asking.Hints.Idempotent = &yes
	b.add(asking, twice(runs))
	b.add(tool("quick:it"), value(`1`))
	p := &process{bench: b, worker: run.NewWorker(b.Runner, run.WorkerOptions{Parallel: 1, Lease: 10 * time.Second, Poll: 10 * time.Millisecond})}
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { p.worker.Run(ctx) })
	p.stop = sync.OnceFunc(func() { cancel(); wg.Wait() })
	t.Cleanup(p.stop)
	return p
}

func (p *process) answer(id, key, content string) {
	p.t.Helper()
	if err := p.worker.AwaitQuestion(p.t.Context(), id); err != nil {
		p.t.Fatal(err)
	}
	err := p.worker.Answer(p.t.Context(), id, map[string]json.RawMessage{key: json.RawMessage(`{"action":"accept","content":` + content + `}`)})
	if err != nil {
		p.t.Fatal(err)
	}
}

func (p *process) finished(id string) *run.Job {
	p.t.Helper()
	for {
		job, err := p.Jobs.Job(p.t.Context(), id)
		if err != nil {
			p.t.Fatal(err)
		}
		if job.State == toolroom.JobDone {
			return job
		}
		select {
		case <-time.After(5 * time.Millisecond):
		case <-p.t.Context().Done():
			p.t.Fatal("the job did not end")
		}
	}
}

func TestAJobThatAskedGoesOnInAnotherProcessWithTheAnswersItHad(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "db")
	var runs atomic.Int64
	first := startProcess(t, path, "first", &runs)
	job, err := first.SubmitAsking(t.Context(), toolroom.Call{Tool: "ask:twice"}, []string{source.MethodElicit})
	if err != nil {
		t.Fatal(err)
	}
	first.answer(job.ID, "name", `{"n":1}`)
	if err := first.worker.AwaitQuestion(t.Context(), job.ID); err != nil {
		t.Fatal(err)
	}
	first.stop()
	second := startProcess(t, path, "second", &runs)
	second.answer(job.ID, "name-2", `{"n":2}`)
	done := second.finished(job.ID)
	if got := string(done.Result.Value); got != `[{"n":1},{"n":2}]` || done.Result.Error != nil {
		t.Errorf("got %s, %v", got, done.Result.Error)
	}
	if runs.Load() != 2 {
		t.Errorf("the tool ran %d times", runs.Load())
	}
}

func TestAJobThatWaitsForAnAnswerTakesNoPlace(t *testing.T) {
	t.Parallel()
	var runs atomic.Int64
	p := startProcess(t, filepath.Join(t.TempDir(), "db"), "only", &runs) // one place
	waiting, err := p.SubmitAsking(t.Context(), toolroom.Call{Tool: "ask:twice"}, []string{source.MethodElicit})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.worker.AwaitQuestion(t.Context(), waiting.ID); err != nil {
		t.Fatal(err)
	}
	quick, err := p.Submit(t.Context(), toolroom.Call{Tool: "quick:it"})
	if err != nil {
		t.Fatal(err)
	}
	if done := p.finished(quick.ID); done.Result.Error != nil {
		t.Errorf("got %v", done.Result.Error)
	}
	if err := p.worker.CancelJob(t.Context(), waiting.ID); err != nil {
		t.Fatal(err)
	}
	if done := p.finished(waiting.ID); done.Result.Status != toolroom.StatusCancelled {
		t.Errorf("got %s", done.Result.Status)
	}
}

func TestAJobIsCancelledFromAnotherProcess(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "db")
	var runs atomic.Int64
	p := startProcess(t, path, "works", &runs)
	job, err := p.SubmitAsking(t.Context(), toolroom.Call{Tool: "ask:twice"}, []string{source.MethodElicit})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.worker.AwaitQuestion(t.Context(), job.ID); err != nil {
		t.Fatal(err)
	}
	if err := openStore(t, path).CancelJob(t.Context(), job.ID); err != nil {
		t.Fatal(err)
	}
	if done := p.finished(job.ID); done.Result.Status != toolroom.StatusCancelled {
		t.Errorf("got %s", done.Result.Status)
	}
}

func TestAJobOfAClientThatAnswersNothingCannotAsk(t *testing.T) {
	t.Parallel()
	var runs atomic.Int64
	p := startProcess(t, filepath.Join(t.TempDir(), "db"), "only", &runs)
	job, err := p.Submit(t.Context(), toolroom.Call{Tool: "ask:twice"})
	if err != nil {
		t.Fatal(err)
	}
	if done := p.finished(job.ID); toolroom.CodeOf(done.Result.Err()) != toolroom.CodeUnsupported {
		t.Errorf("got %+v", done.Result)
	}
}

func TestAJobIsCancelledAtOnceWhereItRunsAndForAllOtherProcesses(t *testing.T) {
	t.Parallel()
	store := openStore(t, filepath.Join(t.TempDir(), "db"))
	b := newBench(t, withStore(store, "one"))
	started := make(chan struct{})
	b.add(tool("slow:it"), func(ctx context.Context, _ *source.Request) (*source.Output, error) {
		close(started)
		<-ctx.Done()
		return nil, ctx.Err()
	})
	w := startWorker(t, b.Runner, run.WorkerOptions{Lease: time.Hour, Poll: 5 * time.Millisecond}) // it looks at the store in 20 minutes
	job, err := b.Submit(t.Context(), toolroom.Call{Tool: "slow:it"})
	if err != nil {
		t.Fatal(err)
	}
	select {
	case <-started:
	case <-time.After(time.Minute):
		t.Fatal("it did not begin")
	}
	elsewhere := run.NewWorker(b.Runner, run.WorkerOptions{})
	if err := elsewhere.CancelJob(t.Context(), job.ID); err != nil {
		t.Fatal(err)
	}
	if now, err := store.Job(t.Context(), job.ID); err != nil || !now.Cancelled || now.State != toolroom.JobRunning {
		t.Errorf("%+v, %v", now, err)
	}
	if err := w.CancelJob(t.Context(), job.ID); err != nil {
		t.Fatal(err)
	}
	if done := jobBecomes(t, b.Runner, job.ID, toolroom.JobDone); done.Result.Status != toolroom.StatusCancelled {
		t.Errorf("it ended %s", done.Result.Status)
	}
	if err := w.CancelJob(t.Context(), "call_unknown"); toolroom.CodeOf(err) != toolroom.CodeNotFound {
		t.Errorf("an unknown job: %v", err)
	}
	if err := w.AwaitQuestion(t.Context(), job.ID); err != nil {
		t.Errorf("a job that has ended asks nothing: %v", err)
	}
	if err := w.AwaitQuestion(t.Context(), "call_unknown"); toolroom.CodeOf(err) != toolroom.CodeNotFound {
		t.Errorf("the questions of an unknown job: %v", err)
	}
}

// slowClaims is a store whose claims of a job become known a while after they were made.
type slowClaims struct {
	*sqlite.Store
	claimed chan struct{}
}

func (s *slowClaims) ClaimJob(ctx context.Context, now, until time.Time) (*run.Job, error) {
	job, err := s.Store.ClaimJob(ctx, now, until)
	if job != nil {
		close(s.claimed)
		time.Sleep(50 * time.Millisecond)
	}
	return job, err
}

func TestAJobIsCancelledAtOnceAlsoBetweenItsClaimAndItsBegin(t *testing.T) {
	t.Parallel()
	store := &slowClaims{openStore(t, filepath.Join(t.TempDir(), "db")), make(chan struct{})}
	b := newBench(t, withStore(store.Store, "one"), func(o *run.Options) { o.Jobs = store })
	b.add(tool("pay:it"), func(ctx context.Context, _ *source.Request) (*source.Output, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	})
	w := startWorker(t, b.Runner, run.WorkerOptions{Lease: time.Hour, Poll: 5 * time.Millisecond}) // it looks at the store in 20 minutes
	job, err := b.Submit(t.Context(), toolroom.Call{Tool: "pay:it"})
	if err != nil {
		t.Fatal(err)
	}
	<-store.claimed
	if !w.CancelRunning(job.ID) {
		t.Fatal("it does not run in this process")
	}
	if done := jobBecomes(t, b.Runner, job.ID, toolroom.JobDone); done.Result.Status != toolroom.StatusCancelled {
		t.Errorf("it ended with %s", done.Result.Status)
	}
}
