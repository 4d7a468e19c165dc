package sqlite

import (
	"encoding/json"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/run"
)

const lease = time.Minute

var jobTests = []test{
	{"a queued job is cancelled, one that runs or is done is not", func(t *testing.T, d database) {
		s := d.open(t)
		must(t, s.CreateJob(t.Context(), newJob("running", start)))
		j := claimJob(t, s, start)
		must(t, s.CreateJob(t.Context(), newJob("queued", start)))
		result := &toolroom.Result{Status: toolroom.StatusCancelled}
		for _, want := range []struct {
			id string
			ok bool
		}{{"running", false}, {"queued", true}, {"queued", false}} {
			if ok, err := s.CancelIdleJob(t.Context(), want.id, result, start); ok != want.ok || err != nil {
				t.Errorf("CancelIdleJob(%s) = %v, %v", want.id, ok, err)
			}
		}
		if got := getJob(t, d.open(t), "queued"); got.State != toolroom.JobDone || got.Result.Status != toolroom.StatusCancelled {
			t.Errorf("it is %+v", got)
		}
		if j := claimJob(t, s, start); j != nil {
			t.Errorf("the cancelled job was claimed: %s", j.ID)
		}
		must(t, s.FinishJob(t.Context(), "running", j.Fence, &toolroom.Result{}, start.Add(time.Hour)))
		_, err := s.CancelIdleJob(t.Context(), "none", result, start)
		wantCode(t, "CancelIdleJob", err, toolroom.CodeNotFound)

		must(t, s.CreateJob(t.Context(), newJob("waits", start)))
		if n, err := s.SweepJobs(t.Context(), start.Add(time.Minute)); n != 1 || err != nil {
			t.Errorf("SweepJobs = %d, %v", n, err)
		}
		_, err = s.Job(t.Context(), "queued")
		wantCode(t, "the swept job", err, toolroom.CodeNotFound)
		getJob(t, s, "running")
		getJob(t, s, "waits")
	}},
	{"a job comes back whole, also after reopening", func(t *testing.T, d database) {
		s := d.open(t)
		want := newJob("job_1", start)
		must(t, s.CreateJob(t.Context(), want))
		want.State = toolroom.JobQueued
		for name, s := range map[string]*Store{"same handle": s, "reopened": d.open(t)} {
			if diff := cmp.Diff(want, getJob(t, s, "job_1")); diff != "" {
				t.Errorf("%s (-want +got):\n%s", name, diff)
			}
		}
	}},
	{"a job that runs already is its maker's, with what resumes it and what its source sent", func(t *testing.T, d database) {
		s := d.open(t)
		want := newJob("job_1", start)
		want.State, want.Started, want.Fence, want.Lease, want.Resume = toolroom.JobRunning, true, 1, start.Add(lease), json.RawMessage(`{"at": 1.50}`)
		must(t, s.CreateJob(t.Context(), want))
		if diff := cmp.Diff(want, getJob(t, d.open(t), "job_1")); diff != "" {
			t.Errorf("it came back changed (-want +got):\n%s", diff)
		}
		if j := claimJob(t, s, start); j != nil {
			t.Errorf("%s was claimed under its lease", j.ID)
		}
		late := claimJob(t, s, start.Add(2*lease))
		if late == nil || string(late.Resume) != `{"at": 1.50}` {
			t.Fatalf("after its lease %+v was claimed", late)
		}
		must(t, s.FinishJob(t.Context(), "job_1", late.Fence, &toolroom.Result{Raw: json.RawMessage(`{"n": 1.50}`)}, start))
		if got := getJob(t, d.open(t), "job_1").Result; string(got.Raw) != `{"n": 1.50}` {
			t.Errorf("its result was sent as %s", got.Raw)
		}
	}},
	{"an unknown job is not found", func(t *testing.T, d database) {
		s := d.open(t)
		_, err := s.Job(t.Context(), "none")
		wantCode(t, "Job", err, toolroom.CodeNotFound)
		wantCode(t, "ExtendJob", s.ExtendJob(t.Context(), "none", 1, start, false), toolroom.CodeNotFound)
		wantCode(t, "FinishJob", s.FinishJob(t.Context(), "none", 1, &toolroom.Result{}, start), toolroom.CodeNotFound)
	}},
	{"an id that is taken is a conflict", func(t *testing.T, d database) {
		s := d.open(t)
		must(t, s.CreateJob(t.Context(), newJob("job_1", start)))
		wantCode(t, "CreateJob", s.CreateJob(t.Context(), newJob("job_1", start)), toolroom.CodeConflict)
	}},
	{"claims take the oldest first, then none", func(t *testing.T, d database) {
		s := d.open(t)
		for i, id := range []string{"third", "first", "second", "also second"} {
			after := []time.Duration{2, 0, 1, 1}[i] * time.Second
			must(t, s.CreateJob(t.Context(), newJob(id, start.Add(after))))
		}
		for _, want := range []string{"first", "second", "also second", "third"} {
			j := claimJob(t, s, start)
			if j.ID != want || j.State != toolroom.JobRunning || j.Fence != 1 || !j.Lease.Equal(start.Add(lease)) {
				t.Errorf("claimed %s, %s, fence %d, lease %v; want %s", j.ID, j.State, j.Fence, j.Lease, want)
			}
		}
		if j := claimJob(t, s, start); j != nil {
			t.Errorf("claimed %s of none", j.ID)
		}
	}},
	{"a job whose lease has ended is claimed again with a higher fence", func(t *testing.T, d database) {
		s := d.open(t)
		must(t, s.CreateJob(t.Context(), newJob("job_1", start)))
		first := claimJob(t, s, start)
		must(t, s.ExtendJob(t.Context(), "job_1", first.Fence, start.Add(2*lease), true))
		if j := claimJob(t, s, start.Add(2*lease)); j != nil {
			t.Fatal("claimed while the lease holds")
		}
		second := claimJob(t, d.open(t), start.Add(2*lease+time.Microsecond))
		if second == nil || second.Fence <= first.Fence || !second.Started {
			t.Fatalf("second claim %+v; want a higher fence than %d, and started kept", second, first.Fence)
		}
		wantCode(t, "extend with the old fence", s.ExtendJob(t.Context(), "job_1", first.Fence, start.Add(9*lease), false), toolroom.CodeConflict)
		wantCode(t, "finish with the old fence", s.FinishJob(t.Context(), "job_1", first.Fence, &toolroom.Result{}, start), toolroom.CodeConflict)
		must(t, s.FinishJob(t.Context(), "job_1", second.Fence, &toolroom.Result{}, start))
	}},
	{"extending prolongs the lease and remembers that the tool started", func(t *testing.T, d database) {
		s := d.open(t)
		must(t, s.CreateJob(t.Context(), newJob("job_1", start)))
		j := claimJob(t, s, start)
		for _, started := range []bool{false, true, false} {
			must(t, s.ExtendJob(t.Context(), "job_1", j.Fence, start.Add(2*lease), started))
		}
		got := getJob(t, s, "job_1")
		if !got.Started || !got.Lease.Equal(start.Add(2*lease)) {
			t.Errorf("started %v, lease %v", got.Started, got.Lease)
		}
	}},
	{"a job has one final result and is never claimed again", func(t *testing.T, d database) {
		s := d.open(t)
		must(t, s.CreateJob(t.Context(), newJob("job_1", start)))
		j := claimJob(t, s, start)
		result := &toolroom.Result{
			Call: "call_1", Tool: "file:write", Status: toolroom.StatusOK, Effects: toolroom.EffectsDone,
			Value: json.RawMessage(`{"big":12345678901234567890}`), Usage: toolroom.Usage{Run: time.Second},
		}
		finished := start.Add(time.Second)
		must(t, s.FinishJob(t.Context(), "job_1", j.Fence, result, finished))
		wantCode(t, "a second result", s.FinishJob(t.Context(), "job_1", j.Fence, &toolroom.Result{}, finished), toolroom.CodeConflict)
		wantCode(t, "extending", s.ExtendJob(t.Context(), "job_1", j.Fence, start.Add(lease), false), toolroom.CodeConflict)
		if again := claimJob(t, s, start.Add(100*lease)); again != nil {
			t.Error("claimed a job that is done")
		}
		got := getJob(t, d.open(t), "job_1")
		if got.State != toolroom.JobDone || !got.Finished.Equal(finished) {
			t.Errorf("state %s, finished %v", got.State, got.Finished)
		}
		if diff := cmp.Diff(result, got.Result); diff != "" {
			t.Errorf("result (-want +got):\n%s", diff)
		}
	}},
	{"an unclaimed job cannot be finished", func(t *testing.T, d database) {
		s := d.open(t)
		must(t, s.CreateJob(t.Context(), newJob("job_1", start)))
		wantCode(t, "FinishJob", s.FinishJob(t.Context(), "job_1", 0, &toolroom.Result{}, start), toolroom.CodeConflict)
		wantCode(t, "ExtendJob", s.ExtendJob(t.Context(), "job_1", 0, start, true), toolroom.CodeConflict)
	}},
	{"of many who claim one job at once, one gets it", func(t *testing.T, d database) {
		must(t, d.open(t).CreateJob(t.Context(), newJob("job_1", start)))
		wins := race(t, d, func(s *Store, _ int) bool { return claimJob(t, s, start) != nil })
		if wins != 1 {
			t.Errorf("%d claims of one job", wins)
		}
	}},
	{"many who claim at once share the jobs", func(t *testing.T, d database) {
		const jobs = 40
		s := d.open(t)
		for n := range jobs {
			must(t, s.CreateJob(t.Context(), newJob(fmt.Sprint(n), start)))
		}
		var mu sync.Mutex
		seen := map[string]int{}
		race(t, d, func(s *Store, _ int) bool {
			for {
				j := claimJob(t, s, start)
				if j == nil {
					return true
				}
				mu.Lock()
				seen[j.ID]++
				mu.Unlock()
			}
		})
		for id, n := range seen {
			if n != 1 {
				t.Errorf("job %s was claimed %d times", id, n)
			}
		}
		if len(seen) != jobs {
			t.Errorf("%d jobs of %d were claimed", len(seen), jobs)
		}
	}},
	{"of many who finish a job at once, one does", func(t *testing.T, d database) {
		s := d.open(t)
		must(t, s.CreateJob(t.Context(), newJob("job_1", start)))
		j := claimJob(t, s, start)
		wins := race(t, d, func(s *Store, _ int) bool {
			return won(t, s.FinishJob(t.Context(), "job_1", j.Fence, &toolroom.Result{}, start))
		})
		if wins != 1 {
			t.Errorf("%d final results", wins)
		}
	}},
}

func newJob(id string, created time.Time) *run.Job {
	identity := toolroom.Identity{Subject: "ann", Agent: "coder", Groups: []string{"dev"}}
	return &run.Job{Job: toolroom.Job{
		ID: id, Identity: identity, State: toolroom.JobQueued, Created: created,
		Call: toolroom.Call{
			ID: "call_1", Tool: "file:write", Arguments: json.RawMessage(`{"n":12345678901234567890}`), Identity: identity,
			Surface: "http", Timeout: time.Minute, IdempotencyKey: "key",
		},
	}}
}

func getJob(t *testing.T, s *Store, id string) *run.Job {
	t.Helper()
	j, err := s.Job(t.Context(), id)
	must(t, err)
	return j
}

// claimJob claims a job for the time of one lease. It returns nil if there is none.
func claimJob(t *testing.T, s *Store, now time.Time) *run.Job {
	t.Helper()
	j, err := s.ClaimJob(t.Context(), now, now.Add(lease))
	if err != nil {
		t.Error(err)
	}
	return j
}
