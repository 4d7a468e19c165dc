package schedule_test

import (
	"context"
	"encoding/json"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/schedule"
	"github.com/toolroom/toolroom/internal/store/sqlite"
	"github.com/toolroom/toolroom/internal/taint"
)

// bench is a service on a store of its own, with a clock that the test sets.
type bench struct {
	*schedule.Service
	t     *testing.T
	path  string
	store *sqlite.Store
	now   time.Time
	off   bool
	// gone are subjects whose tokens were revoked.
	gone []string
}

func newBench(t *testing.T, now string) *bench {
	t.Helper()
	b := &bench{t: t, path: filepath.Join(t.TempDir(), "toolroom.db"), now: at(t, now)}
	b.restart()
	return b
}

// restart opens the store again, as another process would.
func (b *bench) restart() {
	b.t.Helper()
	store, err := sqlite.Open(b.t.Context(), b.path, sqlite.Options{})
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { store.Close() })
	b.store = store
	b.Service = schedule.New(schedule.Options{
		Store: store, Jobs: store, Taints: store, Now: func() time.Time { return b.now }, Enabled: func() bool { return !b.off },
		CurrentIdentity: func(_ context.Context, who toolroom.Identity) (toolroom.Identity, error) {
			if slices.Contains(b.gone, who.Subject) {
				return who, toolroom.Errorf(toolroom.CodeDenied, "%s is gone", who.Subject)
			}
			return who, nil
		},
	})
}

func (b *bench) create(when string, missed schedule.Missed) *schedule.Schedule {
	b.t.Helper()
	s, err := b.Create(b.t.Context(), schedule.Schedule{
		When: when, Zone: "UTC", Missed: missed, Labels: []taint.Label{{Name: "untrusted", Tool: "web:fetch"}},
		Call: toolroom.Call{Tool: "a:x", Arguments: json.RawMessage(`{"n":1}`), Identity: toolroom.Identity{Subject: "ann", Agent: "fast"}},
	})
	if err != nil {
		b.t.Fatal(err)
	}
	return s
}

// tick lets the service work at a time, and returns the calls that it has queued, which it
// then ends.
func (b *bench) tick(now string) []string {
	b.t.Helper()
	b.now = at(b.t, now)
	if err := b.Tick(b.t.Context()); err != nil {
		b.t.Fatal(err)
	}
	return b.finish()
}

func (b *bench) finish() []string {
	b.t.Helper()
	var calls []string
	for {
		job, err := b.store.ClaimJob(b.t.Context(), b.now, b.now.Add(time.Minute))
		if err != nil {
			b.t.Fatal(err)
		}
		if job == nil {
			return calls
		}
		if job.Call.Surface != schedule.Surface || job.Call.Identity.Subject != "ann" || job.Call.Identity.Agent != "fast" || string(job.Call.Arguments) != `{"n":1}` {
			b.t.Errorf("got %+v", job.Call)
		}
		calls = append(calls, job.ID)
		if err := b.store.FinishJob(b.t.Context(), job.ID, job.Fence, &toolroom.Result{Call: job.ID, Status: toolroom.StatusOK}, b.now); err != nil {
			b.t.Fatal(err)
		}
	}
}

func (b *bench) get(id string) *schedule.Schedule {
	b.t.Helper()
	s, err := b.store.Schedule(b.t.Context(), id)
	if err != nil {
		b.t.Fatal(err)
	}
	return s
}

func TestASchedulesCallsRunAtTheirTimes(t *testing.T) {
	t.Parallel()
	b := newBench(t, "2026-01-01T10:00:00Z")
	s := b.create("0 * * * *", schedule.MissedOnce)
	for _, tt := range []struct {
		now  string
		want []string
	}{
		{"2026-01-01T10:59:59Z", nil},
		{"2026-01-01T11:00:00Z", []string{s.ID + "_1"}},
		{"2026-01-01T11:00:30Z", nil},
		{"2026-01-01T12:00:02Z", []string{s.ID + "_2"}},
	} {
		if got := b.tick(tt.now); !slices.Equal(got, tt.want) {
			t.Errorf("%s: %v, want %v", tt.now, got, tt.want)
		}
	}
	if got := b.get(s.ID); got.Runs != 2 || got.Dropped != 0 || !got.Last.Due.Equal(at(t, "2026-01-01T12:00:00Z")) || !got.Next.Equal(at(t, "2026-01-01T13:00:00Z")) {
		t.Errorf("got %+v", got)
	}
	labels, err := b.store.Taints(t.Context(), "ann", s.ID, time.Time{})
	if err != nil || len(labels) != 1 || labels[0].Name != "untrusted" {
		t.Errorf("the session of the calls has %v, %v", labels, err)
	}
	once := b.create("2026-01-01T15:00", schedule.MissedOnce)
	b.off = true
	if got := b.tick("2026-01-01T15:00:00Z"); got != nil {
		t.Errorf("%v ran while the pack was off", got)
	}
	b.off = false
	if got := b.tick("2026-01-01T15:00:10Z"); !slices.Contains(got, once.ID+"_1") || !b.get(once.ID).Next.IsZero() {
		t.Errorf("got %v", got)
	}
	if got := b.tick("2026-01-02T15:00:10Z"); slices.Contains(got, once.ID+"_2") {
		t.Errorf("it ran twice: %v", got)
	}
	b.now = b.now.AddDate(0, 2, 0)
	if err := b.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	if list, err := b.List(t.Context(), toolroom.Identity{Subject: "ann"}); err != nil || len(list) != 1 || list[0].ID != s.ID {
		t.Errorf("left are %v, %v", list, err)
	}
}

func TestMissedRunsAfterARestart(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		missed  schedule.Missed
		back    string
		calls   int
		dropped int
	}{
		{schedule.MissedOnce, "2026-01-01T15:30:00Z", 1, 4},
		{schedule.MissedSkip, "2026-01-01T15:30:00Z", 0, 5},
		{schedule.MissedSkip, "2026-01-01T15:00:30Z", 1, 4},
		{schedule.MissedAll, "2026-01-01T15:30:00Z", 5, 0},
		{schedule.MissedAll, "2026-01-11T10:30:00Z", 100, 140},
	} {
		b := newBench(t, "2026-01-01T10:00:00Z")
		s := b.create("0 * * * *", tt.missed)
		b.restart()
		calls := 0
		for range 200 {
			got := b.tick(tt.back)
			if len(got) > 1 {
				t.Fatalf("%s: several calls at once: %v", tt.missed, got)
			}
			calls += len(got)
		}
		if got := b.get(s.ID); calls != tt.calls || got.Runs != tt.calls || got.Dropped != tt.dropped || !got.Next.After(at(t, tt.back)) {
			t.Errorf("%s back at %s: %d calls, %+v", tt.missed, tt.back, calls, got)
		}
	}
}

// Of very many missed runs the newest ones are made, as of few.
func TestManyMissedRunsAfterARestart(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		missed schedule.Missed
		calls  int
	}{{schedule.MissedOnce, 1}, {schedule.MissedSkip, 1}, {schedule.MissedAll, 100}} {
		b := newBench(t, "2026-01-01T10:00:00Z")
		s := b.create("* * * * *", tt.missed)
		b.restart()
		first := at(t, "2026-03-01T10:00:30Z")
		b.tick("2026-03-01T10:00:30Z")
		if got := b.get(s.ID); got.Last == nil || got.Last.Call == "" || got.Last.Due.Before(first.Add(-2*time.Hour)) {
			t.Errorf("%s: the first run is %+v", tt.missed, got.Last)
		}
		calls := 1
		for range 150 {
			calls += len(b.tick("2026-03-01T10:00:30Z"))
		}
		if got := b.get(s.ID); calls != tt.calls || got.Runs != calls || !got.Last.Due.Equal(at(t, "2026-03-01T10:00:00Z")) {
			t.Errorf("%s: %d calls, the last %+v", tt.missed, calls, got.Last)
		}
	}
}

func TestACallThatGoesOnIsStillKnownAfterAMissedRun(t *testing.T) {
	t.Parallel()
	b := newBench(t, "2026-01-01T10:00:00Z")
	s := b.create("0 * * * *", schedule.MissedSkip)
	for _, now := range []string{
		"2026-01-01T11:00:00Z", // queues a call, which does not end
		"2026-01-01T14:30:00Z", // the machine slept: three runs were missed
		"2026-01-01T15:00:00Z",
	} {
		b.now = at(t, now)
		if err := b.Tick(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if got := b.get(s.ID); got.Runs != 1 || got.Dropped != 4 || got.Last.Call != s.ID+"_1" || got.Last.Problem == "" {
		t.Errorf("got %+v, last %+v", got, got.Last)
	}
	if _, err := b.Trigger(t.Context(), s.Call.Identity, s.ID); toolroom.CodeOf(err) != toolroom.CodeConflict {
		t.Errorf("a trigger while the call goes on: %v", err)
	}
}

func TestARunIsDroppedWhileTheOneBeforeGoesOn(t *testing.T) {
	t.Parallel()
	b := newBench(t, "2026-01-01T10:00:00Z")
	s := b.create("0 * * * *", schedule.MissedOnce)
	b.now = at(t, "2026-01-01T11:00:00Z")
	for range 5 {
		if err := b.Tick(t.Context()); err != nil {
			t.Fatal(err)
		}
		b.now = b.now.Add(time.Hour)
	}
	if got := b.get(s.ID); got.Runs != 1 || got.Dropped != 4 || got.Last.Problem == "" {
		t.Errorf("got %+v %+v", got, got.Last)
	}
	if _, err := b.Trigger(t.Context(), s.Call.Identity, s.ID); toolroom.CodeOf(err) != toolroom.CodeConflict {
		t.Errorf("triggered while it runs: %v", err)
	}
	if got := b.finish(); len(got) != 1 {
		t.Errorf("got %v", got)
	}
}

// A clock that is set back a little repeats nothing; one that was far ahead does not stop a
// schedule for ever.
func TestTheClockIsSet(t *testing.T) {
	t.Parallel()
	b := newBench(t, "2026-01-01T08:00:00Z")
	s := b.create("0 9 * * *", schedule.MissedOnce)
	for _, tt := range []struct {
		now  string
		want int
	}{
		{"2026-01-01T09:00:01Z", 1},
		{"2026-01-01T08:30:00Z", 0},
		{"2026-01-01T09:00:01Z", 0},
		{"2026-01-02T09:00:01Z", 1},
		{"2031-05-05T05:05:05Z", 1}, // ahead by years
		{"2026-01-03T08:00:00Z", 0},
		{"2026-01-03T09:00:01Z", 1},
		{"2026-01-04T09:00:01Z", 1},
	} {
		if got := b.tick(tt.now); len(got) != tt.want {
			t.Errorf("%s: %v, want %d calls; next %s", tt.now, got, tt.want, b.get(s.ID).Next)
		}
	}
}

// A clock that was ahead for a while does not stop a frequent schedule until that time.
func TestAFrequentScheduleGoesOnWhenTheClockIsCorrected(t *testing.T) {
	t.Parallel()
	b := newBench(t, "2026-01-01T08:00:00Z")
	s := b.create("*/10 * * * *", schedule.MissedSkip)
	for _, tt := range []struct {
		now  string
		want int
	}{
		{"2026-01-01T10:00:01Z", 1}, // ahead by two hours
		{"2026-01-01T09:55:00Z", 0}, // a small correction repeats nothing
		{"2026-01-01T10:00:01Z", 0},
		{"2026-01-01T08:05:00Z", 0},
		{"2026-01-01T08:10:01Z", 1},
		{"2026-01-01T08:20:01Z", 1},
	} {
		if got := b.tick(tt.now); len(got) != tt.want {
			t.Errorf("%s: %v, want %d calls; next %s", tt.now, got, tt.want, b.get(s.ID).Next)
		}
	}
}

// A paused schedule makes no calls, also in another process, and drops the runs of the pause.
func TestAScheduleIsPaused(t *testing.T) {
	t.Parallel()
	ann := toolroom.Identity{Subject: "ann"}
	b := newBench(t, "2026-01-01T10:00:00Z")
	s := b.create("0 * * * *", schedule.MissedAll)
	for range 2 { // the second changes nothing
		if got, err := b.Pause(t.Context(), ann, s.ID); err != nil || !got.Paused.Equal(b.now) {
			t.Fatal(got, err)
		}
	}
	if _, err := b.Resume(t.Context(), toolroom.Identity{Subject: "bob"}, s.ID); toolroom.CodeOf(err) != toolroom.CodeNotFound {
		t.Errorf("bob resumes: %v", err)
	}
	b.restart()
	if got := b.tick("2026-01-01T12:00:01Z"); got != nil {
		t.Errorf("%v ran while paused", got)
	}
	if err := b.store.SweepSchedules(t.Context(), at(t, "2026-06-01T00:00:00Z")); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Trigger(t.Context(), ann, s.ID); err != nil || len(b.finish()) != 1 || b.get(s.ID).Paused.IsZero() {
		t.Errorf("triggered: %v, %+v", err, b.get(s.ID))
	}
	for range 2 {
		if got, err := b.Resume(t.Context(), ann, s.ID); err != nil || !got.Paused.IsZero() || !got.Next.Equal(at(t, "2026-01-01T13:00:00Z")) {
			t.Errorf("resumed: %+v, %v", got, err)
		}
	}
	if got := b.tick("2026-01-01T12:30:00Z"); got != nil {
		t.Errorf("%v made up for the pause", got)
	}
	if got := b.tick("2026-01-01T13:00:01Z"); len(got) != 1 {
		t.Errorf("after the pause: %v", got)
	}
	once := b.create("2026-01-01T15:00", schedule.MissedOnce)
	if _, err := b.Pause(t.Context(), ann, once.ID); err != nil {
		t.Fatal(err)
	}
	b.now = at(t, "2026-01-01T16:00:00Z")
	if _, err := b.Resume(t.Context(), ann, once.ID); toolroom.CodeOf(err) != toolroom.CodeConflict {
		t.Errorf("its time has passed: %v", err)
	}
}

func TestOfManyProcessesOneMakesEachCall(t *testing.T) {
	t.Parallel()
	b := newBench(t, "2026-01-01T10:00:00Z")
	b.create("0 * * * *", schedule.MissedOnce)
	services := []*schedule.Service{b.Service}
	for range 4 {
		b.restart()
		services = append(services, b.Service)
	}
	b.now = at(t, "2026-01-01T11:00:00Z")
	var wg sync.WaitGroup
	for _, s := range services {
		wg.Go(func() {
			if err := s.Tick(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if got := b.finish(); len(got) != 1 {
		t.Errorf("got %v", got)
	}
}

func TestWhoMayUseASchedule(t *testing.T) {
	t.Parallel()
	b := newBench(t, "2026-01-01T10:00:00Z")
	s := b.create("0 * * * *", schedule.MissedOnce) // ann's agent fast
	for _, tt := range []struct {
		name string
		who  toolroom.Identity
		want bool
	}{
		{"ann", toolroom.Identity{Subject: "ann"}, true},
		{"her agent", toolroom.Identity{Subject: "ann", Agent: "fast"}, true},
		{"another agent", toolroom.Identity{Subject: "ann", Agent: "slow"}, false},
		{"with a skill", toolroom.Identity{Subject: "ann", Agent: "fast", Skill: "reader"}, false},
		{"with few scopes", toolroom.Identity{Subject: "ann", Scopes: []string{}}, false},
		{"bob", toolroom.Identity{Subject: "bob", Agent: "fast"}, false},
		{"the operator", toolroom.Identity{}, false},
	} {
		list, err := b.List(t.Context(), tt.who)
		if err != nil || len(list) == 1 != tt.want {
			t.Errorf("%s sees %v, %v", tt.name, list, err)
		}
		_, err = b.Trigger(t.Context(), tt.who, s.ID)
		b.finish()
		if (err == nil) != tt.want || err != nil && toolroom.CodeOf(err) != toolroom.CodeNotFound {
			t.Errorf("%s triggers: %v", tt.name, err)
		}
		if !tt.want {
			if _, err := b.Delete(t.Context(), tt.who, s.ID); toolroom.CodeOf(err) != toolroom.CodeNotFound {
				t.Errorf("%s deletes: %v", tt.name, err)
			}
		}
	}
	if _, err := b.Trigger(t.Context(), toolroom.Identity{Subject: "ann", Groups: []string{"admins"}}, s.ID); toolroom.CodeOf(err) != toolroom.CodeDenied {
		t.Errorf("with other groups: %v", err)
	}
	b.gone = []string{"ann"}
	if got := b.tick("2026-01-01T11:00:00Z"); got != nil || b.get(s.ID).Last.Problem == "" {
		t.Errorf("it ran for an identity that is gone: %v", got)
	}
	if _, err := b.Trigger(t.Context(), toolroom.Identity{Subject: "ann"}, s.ID); toolroom.CodeOf(err) != toolroom.CodeDenied {
		t.Errorf("triggered for an identity that is gone: %v", err)
	}
	b.gone = nil
	if _, err := b.Delete(t.Context(), toolroom.Identity{Subject: "ann"}, s.ID); err != nil {
		t.Error(err)
	}
	if got := b.tick("2026-01-01T12:00:00Z"); got != nil {
		t.Errorf("it ran after its end: %v", got)
	}
}

func TestAScheduleIsForCallersWithItsGroups(t *testing.T) {
	t.Parallel()
	b := newBench(t, "2026-01-01T10:00:00Z")
	ann := func(groups ...string) toolroom.Identity { return toolroom.Identity{Subject: "ann", Groups: groups} }
	s, err := b.Create(t.Context(), schedule.Schedule{When: "@daily", Call: toolroom.Call{Tool: "a:x", Identity: ann("ops", "dev")}})
	if err != nil {
		t.Fatal(err)
	}
	for _, who := range []toolroom.Identity{ann("guests"), ann("ops"), ann()} {
		if list, err := b.List(t.Context(), who); err != nil || len(list) > 0 {
			t.Errorf("%v sees %v, %v", who.Groups, list, err)
		}
		if _, err := b.Trigger(t.Context(), who, s.ID); toolroom.CodeOf(err) != toolroom.CodeNotFound {
			t.Errorf("%v triggers: %v", who.Groups, err)
		}
		if _, err := b.Delete(t.Context(), who, s.ID); toolroom.CodeOf(err) != toolroom.CodeNotFound {
			t.Errorf("%v deletes: %v", who.Groups, err)
		}
	}
	if list, err := b.List(t.Context(), ann("dev", "admins", "ops")); err != nil || len(list) != 1 {
		t.Errorf("more groups see %v, %v", list, err)
	}
	if _, err := b.Delete(t.Context(), ann("dev", "ops"), s.ID); err != nil {
		t.Error(err)
	}
}

func TestAnIdentityHasOnlySoManySchedules(t *testing.T) {
	t.Parallel()
	b := newBench(t, "2026-01-01T10:00:00Z")
	for range schedule.MaxPerOwner {
		b.create("0 * * * *", schedule.MissedOnce)
	}
	_, err := b.Create(t.Context(), schedule.Schedule{When: "@daily", Call: toolroom.Call{Tool: "a:x", Identity: toolroom.Identity{Subject: "ann"}}})
	if toolroom.CodeOf(err) != toolroom.CodeResourceLimit {
		t.Errorf("got %v", err)
	}
	if _, err := b.Create(t.Context(), schedule.Schedule{When: "@daily", Call: toolroom.Call{Tool: "a:x", Identity: toolroom.Identity{Subject: "bob"}}}); err != nil {
		t.Errorf("another identity: %v", err)
	}
}
