package run_test

import (
	"context"
	"encoding/json"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/approval"
	"github.com/toolroom/toolroom/internal/catalog"
	"github.com/toolroom/toolroom/internal/policy"
	"github.com/toolroom/toolroom/internal/run"
	"github.com/toolroom/toolroom/internal/source/gofunc"
	"github.com/toolroom/toolroom/source"
)

// startWorker runs a worker until the test ends.
func startWorker(t *testing.T, r *run.Runner, o run.WorkerOptions) *run.Worker {
	t.Helper()
	w := run.NewWorker(r, o)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); w.Run(ctx) }()
	t.Cleanup(func() { stop(); <-done })
	return w
}

// jobBecomes waits until a job is in a state.
func jobBecomes(t *testing.T, r *run.Runner, id string, state toolroom.JobState) *run.Job {
	t.Helper()
	for range 1000 {
		job, err := r.Jobs.Job(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		if job.State == state {
			return job
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatalf("job %s is not %s", id, state)
	return nil
}

func TestAJobWhoseLeasePassedWhileItsProcessLivesIsNotBegunAgain(t *testing.T) {
	t.Parallel()
	for _, guarantee := range []toolroom.Guarantee{toolroom.GuaranteeSafe, toolroom.GuaranteeNever} {
		store := openStore(t, filepath.Join(t.TempDir(), "db"))
		var ahead atomic.Int64
		b := newBench(t, withStore(store, "one", "one"), func(o *run.Options) {
			o.Now = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
		})
		var calls atomic.Int64
		started, release := make(chan struct{}, 10), make(chan struct{})
		slow := tool("slow:it")
		slow.Guarantee = guarantee
		b.add(slow, func(ctx context.Context, _ *source.Request) (*source.Output, error) {
			calls.Add(1)
			started <- struct{}{}
			select {
			case <-release:
				return &source.Output{Value: json.RawMessage("1")}, nil
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		})
		w := startWorker(t, b.Runner, run.WorkerOptions{Poll: 5 * time.Millisecond, Lease: time.Minute})
		job, err := b.Submit(t.Context(), toolroom.Call{Tool: "slow:it"})
		if err != nil {
			t.Fatal(err)
		}
		<-started
		ahead.Store(int64(time.Hour)) // the machine slept
		for range 20 {
			w.Wake()
			time.Sleep(10 * time.Millisecond)
		}
		if _, _, err := w.ResumeOnce(withTimeout(t, 50*time.Millisecond), job.ID); err == nil {
			t.Error("the job ended")
		}
		if n := calls.Load(); n != 1 {
			t.Errorf("%s: the tool runs %d times", guarantee, n)
		}
		close(release)
		if done := jobBecomes(t, b.Runner, job.ID, toolroom.JobDone); done.Result.Error != nil {
			t.Errorf("%s: %v", guarantee, done.Result.Error)
		}
	}
}

func withTimeout(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// needingPeople returns a bench whose tools of a namespace need a person.
func needingPeople(t *testing.T) (*bench, *approval.Service) {
	t.Helper()
	store := openStore(t, filepath.Join(t.TempDir(), "db"))
	approvals := approval.New(store, approval.Options{Poll: 10 * time.Millisecond})
	layers, err := policy.Compile(policy.Config{Rules: policy.Rules{Confirm: []string{"ask:*"}}})
	if err != nil {
		t.Fatal(err)
	}
	b := newBench(t, withStore(store, "one", "one"), func(o *run.Options) { o.Approvals, o.Policy = approvals, layers })
	return b, approvals
}

func TestJobsThatWaitForAPersonLeaveTheirPlaces(t *testing.T) {
	t.Parallel()
	b, approvals := needingPeople(t)
	var calls atomic.Int64
	b.add(tool("ask:it"), counting(&calls))
	b.add(tool("free:it"), value("1"))
	startWorker(t, b.Runner, run.WorkerOptions{Poll: 5 * time.Millisecond, Parallel: 2, MaxWait: 50 * time.Millisecond})
	var waiting []*run.Job
	for range 4 {
		job, err := b.Submit(t.Context(), toolroom.Call{Tool: "ask:it", Arguments: json.RawMessage(`{"n":` + string(rune('0'+len(waiting))) + `}`)})
		if err != nil {
			t.Fatal(err)
		}
		waiting = append(waiting, job)
	}
	free, err := b.Submit(t.Context(), toolroom.Call{Tool: "free:it"})
	if err != nil {
		t.Fatal(err)
	}
	jobBecomes(t, b.Runner, free.ID, toolroom.JobDone)
	for _, job := range waiting {
		jobBecomes(t, b.Runner, job.ID, toolroom.JobWaiting)
	}
	asked, err := approvals.List(t.Context(), toolroom.ApprovalPending)
	if err != nil || len(asked) != 4 {
		t.Fatalf("%d questions, %v", len(asked), err)
	}
	// A late yes runs the call once; a no ends it, and it asks nobody again.
	for i, a := range asked {
		if _, err := approvals.Answer(t.Context(), a.ID, toolroom.Answer{Approve: i%2 == 0}); err != nil {
			t.Fatal(err)
		}
	}
	ok := 0
	for _, job := range waiting {
		if done := jobBecomes(t, b.Runner, job.ID, toolroom.JobDone); done.Result.Error == nil {
			ok++
		} else if toolroom.CodeOf(done.Result.Err()) != toolroom.CodeApprovalDeclined {
			t.Error(done.Result.Error)
		}
	}
	if ok != 2 || calls.Load() != 2 {
		t.Errorf("%d jobs are ok, the tool ran %d times", ok, calls.Load())
	}
}

func TestCancellingAJobThatWaitsForAPersonEndsItAndItsQuestion(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*bench, *run.Worker, string) error{
		"suspended": func(b *bench, w *run.Worker, id string) error { return w.CancelJob(t.Context(), id) },
		"while its lease is held": func(b *bench, w *run.Worker, id string) error { // what End then does
			defer w.Wake()
			return b.Jobs.(run.QuestionStore).CancelJob(t.Context(), id)
		},
	} {
		b, approvals := needingPeople(t)
		b.add(tool("ask:it"), value("1"))
		w := startWorker(t, b.Runner, run.WorkerOptions{Poll: 5 * time.Millisecond, MaxWait: 20 * time.Millisecond})
		job, err := b.Submit(t.Context(), toolroom.Call{Tool: "ask:it"})
		if err != nil {
			t.Fatal(err)
		}
		jobBecomes(t, b.Runner, job.ID, toolroom.JobWaiting)
		time.Sleep(100 * time.Millisecond) // until it is suspended
		if err := end(b, w, job.ID); err != nil {
			t.Fatal(name, err)
		}
		if done := jobBecomes(t, b.Runner, job.ID, toolroom.JobDone); done.Result.Status != toolroom.StatusCancelled {
			t.Errorf("%s: it ended %s", name, done.Result.Status)
		}
		if asked, err := approvals.List(t.Context(), toolroom.ApprovalPending); err != nil || len(asked) != 0 {
			t.Errorf("%s: %d questions are left, %v", name, len(asked), err)
		}
	}
}

func TestTheCacheOfASourceEndsWithIt(t *testing.T) {
	t.Parallel()
	yes := true
	read := tool("src:read")
	read.Hints.ReadOnly = &yes
	cat := catalog.New(catalog.Options{})
	b := newBench(t, func(o *run.Options) { o.Catalog, o.Limits.Cache.Tools = cat, []string{"src:*"} })
	for _, answer := range []string{`"old"`, `"new"`} { // as after a reload
		s := &gofunc.Source{}
		s.Put(gofunc.Func{Tool: read, Handler: value(answer)})
		if err := cat.SetProvider("src", s, []toolroom.Tool{read}); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if r := b.Run(t.Context(), toolroom.Call{Tool: "src:read"}); string(r.Value) != answer {
				t.Errorf("got %s, want %s (%v)", r.Value, answer, r.Error)
			}
		}
	}
}
