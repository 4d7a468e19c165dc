package sqlite

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/bridge"
	"github.com/toolroom/toolroom/internal/run"
	"github.com/toolroom/toolroom/internal/session"
)

// waitTests test jobs that wait for people, and the journals from which their programs
// resume.
var waitTests = []test{
	{"jobs are listed newest first, those of one owner alone", func(t *testing.T, d database) {
		s := d.open(t)
		for i, owner := range []string{"ann", "bob", "", "ann"} {
			j := newJob([]string{"first", "second", "third", "fourth"}[i], start.Add(time.Duration(i)*time.Second))
			j.Identity = toolroom.Identity{Subject: owner}
			must(t, s.CreateJob(t.Context(), j))
		}
		for _, want := range []struct {
			owner string
			limit int
			ids   []string
		}{
			{"", 10, []string{"fourth", "third", "second", "first"}},
			{"", 2, []string{"fourth", "third"}},
			{"ann", 10, []string{"fourth", "first"}},
			{toolroom.Identity{}.Key(), 10, []string{"third"}},
			{"nobody", 10, nil},
		} {
			list, err := d.open(t).ListJobs(t.Context(), want.owner, want.limit)
			must(t, err)
			var ids []string
			for _, j := range list {
				ids = append(ids, j.ID)
			}
			if diff := cmp.Diff(want.ids, ids); diff != "" {
				t.Errorf("owner %q, limit %d (-want +got):\n%s", want.owner, want.limit, diff)
			}
		}
	}},
	{"a job is taken by its id, and only when it may be run", func(t *testing.T, d database) {
		s := d.open(t)
		must(t, s.CreateJob(t.Context(), newJob("older", start)))
		must(t, s.CreateJob(t.Context(), newJob("wanted", start.Add(time.Second))))
		j := takeJob(t, s, "wanted", start)
		if j == nil || j.ID != "wanted" || j.State != toolroom.JobRunning || j.Fence != 1 {
			t.Fatalf("took %+v", j)
		}
		if again := takeJob(t, d.open(t), "wanted", start); again != nil {
			t.Error("it was taken while its lease holds")
		}
		if again := takeJob(t, s, "wanted", start.Add(lease+time.Microsecond)); again == nil || again.Fence != 2 {
			t.Errorf("after its lease: %+v", again)
		}
		must(t, s.FinishJob(t.Context(), "wanted", 2, &toolroom.Result{}, start))
		if again := takeJob(t, s, "wanted", start.Add(100*lease)); again != nil {
			t.Error("it was taken when it was done")
		}
		_, err := s.TakeJob(t.Context(), "none", start, start.Add(lease))
		wantCode(t, "TakeJob", err, toolroom.CodeNotFound)
	}},
	{"a job that waits is run again when one of its questions is open no longer", func(t *testing.T, d database) {
		for name, end := range map[string]func(s *Store, id string) time.Time{
			"answered": func(s *Store, id string) time.Time {
				answerApproval(t, s, id, toolroom.Answer{Approve: true, By: "bob"}, start)
				return start.Add(2 * lease)
			},
			"expired": func(*Store, string) time.Time { return start.Add(2 * approvalTTL) },
		} {
			t.Run(name, func(t *testing.T) {
				s := d.open(t)
				job, open, other := name+" job", name+" open", name+" other"
				for _, id := range []string{open, other} {
					createApproval(t, s, newApproval(id, "of "+id))
				}
				must(t, s.CreateJob(t.Context(), newJob(job, start)))
				j := takeJob(t, s, job, start)
				must(t, s.WaitJob(t.Context(), job, j.Fence, []string{open, other}))
				if got := getJob(t, d.open(t), job); got.State != toolroom.JobWaiting || !cmp.Equal(got.Approvals, []string{open, other}) {
					t.Errorf("it is %s and waits for %q", got.State, got.Approvals)
				}
				if j := takeJob(t, s, job, start.Add(2*lease)); j != nil {
					t.Error("it was taken while its questions are open")
				}
				now := end(s, open)
				got := takeJob(t, s, job, now)
				if got == nil || got.State != toolroom.JobRunning || len(got.Approvals) != 0 {
					t.Fatalf("it is not run again: %+v", got)
				}
				wantCode(t, "waiting with the old fence", s.WaitJob(t.Context(), job, j.Fence, []string{open}), toolroom.CodeConflict)
			})
		}
	}},
	{"a job that waits no longer runs in the process that has it", func(t *testing.T, d database) {
		s := d.open(t)
		createApproval(t, s, newApproval("open", "digest"))
		must(t, s.CreateJob(t.Context(), newJob("job", start)))
		j := claimJob(t, s, start)
		must(t, s.WaitJob(t.Context(), "job", j.Fence, []string{"open"}))
		must(t, s.WaitJob(t.Context(), "job", j.Fence, nil))
		if got := getJob(t, s, "job"); got.State != toolroom.JobRunning || got.Fence != j.Fence || len(got.Approvals) != 0 {
			t.Errorf("it is %+v", got)
		}
		wantCode(t, "WaitJob", s.WaitJob(t.Context(), "none", 1, nil), toolroom.CodeNotFound)
	}},
	{"a journal comes back whole, also after reopening, with each entry in its place", func(t *testing.T, d database) {
		s := d.open(t)
		_, _, err := s.Journal(t.Context(), "call")
		wantCode(t, "Journal", err, toolroom.CodeNotFound)
		head := &session.JournalHead{
			Engine: "js", Seed: []byte{0, 255}, State: "ab", Withheld: map[string]string{"json": "a module"},
			Tools: []bridge.Tool{{ID: "a:b", Path: []string{"a", "b"}}},
		}
		first := session.JournalEntry{Tool: "a:b", Hash: "1", Result: &toolroom.Result{Value: json.RawMessage(`{"big":12345678901234567890}`)}}
		second := session.JournalEntry{Tool: "a:c", Hash: "2", Approval: "apr_1"}
		must(t, s.SaveJournal(t.Context(), "call", head, []session.JournalEntry{first, second}))
		must(t, s.SaveJournal(t.Context(), "other", head, []session.JournalEntry{second}))
		third := session.JournalEntry{Tool: "a:d", Hash: "3", NotBegun: true}
		second.Result = &toolroom.Result{Error: toolroom.Errorf(toolroom.CodeDenied, "no")}
		must(t, s.SaveJournalEntry(t.Context(), "call", 2, third))
		must(t, s.SaveJournalEntry(t.Context(), "call", 1, second)) // in place of what was there
		wantJournal(t, d.open(t), "call", head, []session.JournalEntry{first, second, third})

		must(t, s.SaveJournal(t.Context(), "call", head, []session.JournalEntry{third}))
		wantJournal(t, s, "call", head, []session.JournalEntry{third})
	}},
	{"a journal is kept until its job has a result, and no longer", func(t *testing.T, d database) {
		s := d.open(t)
		for _, id := range []string{"ends", "stays"} {
			must(t, s.CreateJob(t.Context(), newJob(id, start)))
			must(t, s.SaveJournal(t.Context(), id, &session.JournalHead{Engine: "js"}, []session.JournalEntry{{Tool: "a:b"}}))
		}
		j := takeJob(t, s, "ends", start)
		must(t, s.FinishJob(t.Context(), "ends", j.Fence, &toolroom.Result{}, start))
		_, _, err := s.Journal(t.Context(), "ends")
		wantCode(t, "Journal", err, toolroom.CodeNotFound)
		wantJournal(t, s, "stays", &session.JournalHead{Engine: "js"}, []session.JournalEntry{{Tool: "a:b"}})
		if ok, err := s.CancelIdleJob(t.Context(), "stays", &toolroom.Result{}, start); !ok || err != nil {
			t.Errorf("CancelIdleJob = %v, %v", ok, err)
		}
		_, _, err = s.Journal(t.Context(), "stays")
		wantCode(t, "Journal of a cancelled job", err, toolroom.CodeNotFound)
	}},
}

func takeJob(t *testing.T, s *Store, id string, now time.Time) *run.Job {
	t.Helper()
	j, err := s.TakeJob(t.Context(), id, now, now.Add(lease))
	must(t, err)
	return j
}

func wantJournal(t *testing.T, s *Store, call string, head *session.JournalHead, entries []session.JournalEntry) {
	t.Helper()
	gotHead, got, err := s.Journal(t.Context(), call)
	must(t, err)
	if diff := cmp.Diff(head, gotHead); diff != "" {
		t.Errorf("head (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(entries, got); diff != "" {
		t.Errorf("entries (-want +got):\n%s", diff)
	}
}
