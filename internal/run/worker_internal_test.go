package run

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/catalog"
	"github.com/toolroom/toolroom/source"
)

func TestTheDefaultsOfAWorker(t *testing.T) {
	t.Parallel()
	r := New(Options{Catalog: catalog.New(catalog.Options{})})
	if got, want := NewWorker(r, WorkerOptions{}).o, (WorkerOptions{Parallel: 10, Lease: 10 * time.Second, MaxWait: 10 * time.Second, Poll: 500 * time.Millisecond}); got != want {
		t.Errorf("got %+v", got)
	}
	if want := (WorkerOptions{Parallel: 1, Lease: 2, MaxWait: 3, Poll: 4}); NewWorker(r, want).o != want {
		t.Errorf("got %+v", NewWorker(r, want).o)
	}
}

func TestAJobThatRunsHereIsCancelledHereUntilItLeaves(t *testing.T) {
	t.Parallel()
	w := NewWorker(New(Options{Catalog: catalog.New(catalog.Options{})}), WorkerOptions{})
	var cancelled []string
	note := func(name string) func() { return func() { cancelled = append(cancelled, name) } }
	first := w.register("job", &Suspension{}, note("first"))
	second := w.register("job", &Suspension{}, note("second")) // as after the first lost its lease
	first()
	if !w.CancelRunning("job") || len(cancelled) != 1 || cancelled[0] != "second" {
		t.Errorf("cancelled %v", cancelled)
	}
	second()
	if w.CancelRunning("job") {
		t.Error("it is cancelled after it left")
	}
	if !w.addTask() {
		t.Error("a task is refused before the end")
	}
	w.tasks.Done()
	w.waitForTasks()
	if w.addTask() {
		t.Error("a task is accepted after the end")
	}
}

func TestCallsWithAKeyAreWaitedForUntilTheirFirstRunLands(t *testing.T) {
	t.Parallel()
	var f keyedCalls
	if f.done("call") != nil {
		t.Error("nobody flies")
	}
	leave := f.add("call")
	again := f.add("call") // the same call, which finds its own key taken
	done := f.done("call")
	again()
	select {
	case <-done:
		t.Error("the second run has ended the first")
	default:
	}
	leave()
	select {
	case <-done:
	default:
		t.Error("it has not landed")
	}
	if f.done("call") != nil {
		t.Error("it still flies")
	}
	leave() // nothing is left to end
}

// leased is a job store that answers to leases.
type leased struct {
	JobStore
	err      error
	extended time.Time
	now      Job
	reads    int
}

func (l *leased) ExtendJob(_ context.Context, _ string, _ int64, until time.Time, _ bool) error {
	l.extended = until
	return l.err
}

func (l *leased) Job(context.Context, string) (*Job, error) {
	l.reads++
	return &l.now, nil
}

func TestALeaseIsRenewedUntilItIsLostOrTheJobIsCancelled(t *testing.T) {
	t.Parallel()
	state := json.RawMessage(`{}`)
	for name, c := range map[string]struct {
		err       error
		cancelled bool
		resume    json.RawMessage
		cause     error
	}{
		"all is well":                     {},
		"the store is locked":             {err: errors.New("locked")},
		"another process has it":          {err: toolroom.Errorf(toolroom.CodeConflict, "stale"), cause: context.Canceled},
		"another process has it, resumed": {err: toolroom.Errorf(toolroom.CodeConflict, "stale"), resume: state, cause: source.ErrHandedOver},
		"it is cancelled":                 {cancelled: true, cause: context.Canceled},
		"it is cancelled, and locked":     {err: errors.New("locked"), cancelled: true, cause: context.Canceled},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := &leased{err: c.err}
				store.now.Cancelled = c.cancelled
				r := New(Options{Catalog: catalog.New(catalog.Options{}), Jobs: store, Log: slog.New(slog.DiscardHandler)})
				s := &Suspension{runner: r, lease: 3 * time.Second, job: &Job{Job: toolroom.Job{ID: "job"}, Resume: c.resume, Fence: 7}}
				ctx, stop := context.WithCancel(t.Context())
				var causes []error
				ended := false
				go func() {
					s.renewLoop(ctx, func(cause error) { causes = append(causes, cause) })
					ended = true
				}()
				began := time.Now()
				time.Sleep(time.Second) // a third of the lease
				synctest.Wait()
				if want := began.Add(4 * time.Second); !store.extended.Equal(want) || (s.leaseEnds.Load() == want.UnixNano()) != (c.err == nil) {
					t.Errorf("the lease is asked for until %s, and known to end at %d", store.extended, s.leaseEnds.Load())
				}
				if ended != (c.cause != nil) || ended && (len(causes) != 1 || !errors.Is(causes[0], c.cause)) || !ended && len(causes) != 0 {
					t.Errorf("ended %v with %v", ended, causes)
				}
				stop()
				synctest.Wait()
				if !ended {
					t.Error("it beats on")
				}
			})
		})
	}
}

// finishing is a job store that cannot store some results.
type finishing struct {
	JobStore
	fails  []error
	stored []*toolroom.Result
}

func (f *finishing) FinishJob(ctx context.Context, _ string, _ int64, r *toolroom.Result, _ time.Time) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	f.stored = append(f.stored, r)
	if n := len(f.stored); n <= len(f.fails) {
		return f.fails[n-1]
	}
	return nil
}

func TestAJobEndsWithItsResultOrWithWhyThatCannotBeStored(t *testing.T) {
	t.Parallel()
	locked, gone, stale := errors.New("locked"), toolroom.Errorf(toolroom.CodeNotFound, "gone"), toolroom.Errorf(toolroom.CodeConflict, "stale")
	for name, c := range map[string]struct {
		fails  []error
		stored int
		err    error
	}{
		"it is stored":           {nil, 1, nil},
		"the job is gone":        {[]error{gone}, 1, gone},
		"another process has it": {[]error{stale}, 1, stale},
		"its result is too long": {[]error{locked}, 2, nil},
		"nothing can be stored":  {[]error{locked, locked}, 2, locked},
	} {
		store := &finishing{fails: c.fails}
		r := New(Options{Catalog: catalog.New(catalog.Options{}), Jobs: store})
		ended, cancel := context.WithCancel(t.Context())
		cancel() // the result is stored although its process ends
		result := &toolroom.Result{Call: "job", Tool: "a:b", Status: toolroom.StatusOK, Effects: toolroom.EffectsDone, Usage: toolroom.Usage{Attempts: 3}}
		err := r.finishJob(ended, &Job{Job: toolroom.Job{ID: "job"}}, result)
		if !errors.Is(err, c.err) || len(store.stored) != c.stored || store.stored[0] != result {
			t.Errorf("%s: stored %d results, %v", name, len(store.stored), err)
		}
		if c.stored < 2 {
			continue
		}
		second := store.stored[1]
		if e := second.Error; toolroom.CodeOf(second.Err()) != toolroom.CodeInternal || e.Tool != "a:b" || !errors.Is(e, locked) || e.CLIHint != "toolroom audit show job" ||
			second.Call != "job" || second.Tool != "a:b" || second.Status != toolroom.StatusError || second.Effects != toolroom.EffectsDone || second.Usage != result.Usage {
			t.Errorf("%s: %+v, %+v", name, second, e)
		}
	}
}
