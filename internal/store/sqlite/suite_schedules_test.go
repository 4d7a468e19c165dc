package sqlite

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/run"
	"github.com/toolroom/toolroom/internal/schedule"
)

var scheduleTests = []test{
	{"schedules are stored, listed by owner and deleted, also after reopening", func(t *testing.T, d database) {
		s := d.open(t)
		first, second := scheduled("s1", "ann", start.Add(time.Hour)), scheduled("s2", "bob", start.Add(2*time.Hour))
		must(t, s.CreateSchedule(t.Context(), first, 5))
		must(t, s.CreateSchedule(t.Context(), second, 5))
		for name, s := range map[string]*Store{"same handle": s, "reopened": d.open(t)} {
			got, err := s.Schedule(t.Context(), "s1")
			must(t, err)
			if diff := cmp.Diff(first, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", name, diff)
			}
			list, err := s.Schedules(t.Context(), "bob")
			must(t, err)
			if len(list) != 1 || list[0].ID != "s2" {
				t.Errorf("%s: bob has %v", name, list)
			}
		}
		must(t, s.DeleteSchedule(t.Context(), "s1"))
		_, err := s.Schedule(t.Context(), "s1")
		wantCode(t, "a deleted one", err, toolroom.CodeNotFound)
		wantCode(t, "deleted again", s.DeleteSchedule(t.Context(), "s1"), toolroom.CodeNotFound)
	}},
	{"an owner has only so many schedules with a next run", func(t *testing.T, d database) {
		s := d.open(t)
		must(t, s.CreateSchedule(t.Context(), scheduled("s1", "ann", time.Time{}), 1))
		must(t, s.CreateSchedule(t.Context(), scheduled("s2", "ann", start), 1))
		wantCode(t, "one too many", s.CreateSchedule(t.Context(), scheduled("s3", "ann", start), 1), toolroom.CodeResourceLimit)
		must(t, s.CreateSchedule(t.Context(), scheduled("s4", "bob", start), 1))
	}},
	{"due are those whose time has come, and those that were settled ahead", func(t *testing.T, d database) {
		s := d.open(t)
		ended, due, later, ahead := scheduled("ended", "ann", time.Time{}), scheduled("due", "ann", start), scheduled("later", "ann", start.Add(time.Second)), scheduled("ahead", "ann", start.AddDate(1, 0, 1))
		ahead.Settled = start.AddDate(1, 0, 0)
		for _, c := range []*schedule.Schedule{ended, due, later, ahead} {
			must(t, s.CreateSchedule(t.Context(), c, 9))
		}
		list, err := s.DueSchedules(t.Context(), start, start.Add(time.Hour))
		must(t, err)
		if len(list) != 2 || list[0].ID != "due" || list[1].ID != "ahead" {
			t.Errorf("due are %v", list)
		}
		must(t, s.SweepSchedules(t.Context(), start.AddDate(0, 0, 1)))
		list, err = s.Schedules(t.Context(), "ann")
		must(t, err)
		if len(list) != 3 || list[0].ID != "due" {
			t.Errorf("left are %v", list)
		}
	}},
	{"of many that advance a schedule one does, with its job", func(t *testing.T, d database) {
		was := scheduled("s1", "ann", start)
		must(t, d.open(t).CreateSchedule(t.Context(), was, 1))
		next := *was
		next.Next, next.Runs = start.Add(time.Hour), 1
		wins := race(t, d, func(s *Store, _ int) bool {
			done, err := s.AdvanceSchedule(t.Context(), was, &next, &run.Job{Job: toolroom.Job{ID: "s1_1", Call: next.Call, State: toolroom.JobQueued, Created: start}})
			must(t, err)
			return done
		})
		jobs, err := d.open(t).ListJobs(t.Context(), "", 9)
		must(t, err)
		if wins != 1 || len(jobs) != 1 || jobs[0].State != toolroom.JobQueued {
			t.Errorf("%d advanced it, and the jobs are %v", wins, jobs)
		}
	}},
	{"a schedule is not advanced if its job cannot be queued, or if it was deleted", func(t *testing.T, d database) {
		s := d.open(t)
		was := scheduled("s1", "ann", start)
		must(t, s.CreateSchedule(t.Context(), was, 1))
		job := &run.Job{Job: toolroom.Job{ID: "taken", Call: was.Call, State: toolroom.JobQueued, Created: start}}
		must(t, s.CreateJob(t.Context(), job))
		next := *was
		next.Next = start.Add(time.Hour)
		done, err := s.AdvanceSchedule(t.Context(), was, &next, job)
		if got, _ := s.Schedule(t.Context(), "s1"); done || toolroom.CodeOf(err) != toolroom.CodeConflict || !got.Next.Equal(start) {
			t.Errorf("%v, %v, %v", done, err, got)
		}
		must(t, s.DeleteSchedule(t.Context(), "s1"))
		if done, err := s.AdvanceSchedule(t.Context(), was, &next, nil); done || err != nil {
			t.Errorf("%v, %v", done, err)
		}
	}},
}

func scheduled(id, owner string, next time.Time) *schedule.Schedule {
	return &schedule.Schedule{
		ID: id, Name: "n", When: "@hourly", Zone: "UTC", Missed: schedule.MissedOnce, Created: start, Next: next, Settled: start,
		Call: toolroom.Call{Tool: "a:x", Arguments: json.RawMessage(`{"a":12345678901234567890,"b":1}`), Identity: toolroom.Identity{Subject: owner}},
	}
}
