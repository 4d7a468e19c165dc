package sqlite

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/toolroom/toolroom/internal/search"
)

var lessonTests = []test{
	{"lessons come back whole, the latest first, also after reopening", func(t *testing.T, d database) {
		s := d.open(t)
		first, second := newLesson("a", "x:y", "ann", 0), newLesson("a", "x:y", "bob", 1)
		putLessons(t, s, first, second)
		for name, s := range map[string]*Store{"same handle": s, "reopened": d.open(t)} {
			wantLessons(t, name, s, second, first)
		}
	}},
	{"a change sees the stored lesson and takes its place", func(t *testing.T, d database) {
		s := d.open(t)
		lesson := newLesson("a", "x:y", "ann", 0)
		putLessons(t, s, lesson)
		must(t, s.UpdateLesson(t.Context(), lesson.LessonKey, func(old search.LessonRecord) search.LessonRecord {
			if diff := cmp.Diff(lesson, old); diff != "" {
				t.Errorf("the stored lesson (-want +got)\n%s", diff)
			}
			old.Terms = map[string]float64{"other": 2}
			return old
		}))
		lesson.Terms = map[string]float64{"other": 2}
		wantLessons(t, "after the change", s, lesson)
	}},
	{"no change of a lesson is lost among many", func(t *testing.T, d database) {
		key := search.LessonKey{Team: "a", Tool: "x:y", Caller: "ann"}
		race(t, d, func(s *Store, _ int) bool {
			return s.UpdateLesson(t.Context(), key, func(old search.LessonRecord) search.LessonRecord {
				return search.LessonRecord{LessonKey: key, At: start, Terms: map[string]float64{"word": old.Terms["word"] + 1}}
			}) == nil
		})
		wantLessons(t, "after the race", d.open(t), search.LessonRecord{LessonKey: key, At: start, Terms: map[string]float64{"word": racers}})
	}},
	{"forgetting removes one tool's lessons, or all", func(t *testing.T, d database) {
		s := d.open(t)
		other := newLesson("b", "x:z", "ann", 0)
		putLessons(t, s, newLesson("a", "x:y", "ann", 1), newLesson("b", "x:y", "ann", 2), other)
		if n, err := s.ForgetLessons(t.Context(), "x:y"); n != 2 || err != nil {
			t.Errorf("forgot %d, %v", n, err)
		}
		wantLessons(t, "after one tool", d.open(t), other)
		if n, err := s.ForgetLessons(t.Context(), ""); n != 1 || err != nil {
			t.Errorf("forgot %d, %v", n, err)
		}
		wantLessons(t, "after all", s)
	}},
	{"pruning removes old lessons and all but the latest", func(t *testing.T, d database) {
		s := d.open(t)
		var all []search.LessonRecord
		for i := range 6 {
			all = append(all, newLesson("a", fmt.Sprint("x:", i), "ann", i))
		}
		putLessons(t, s, all...)
		must(t, s.PruneLessons(t.Context(), all[1].At, 100))
		wantLessons(t, "by age", s, all[5], all[4], all[3], all[2], all[1])
		must(t, s.PruneLessons(t.Context(), time.Time{}, 2))
		wantLessons(t, "by number", s, all[5], all[4])
	}},
}

func newLesson(team, tool, caller string, hours int) search.LessonRecord {
	return search.LessonRecord{
		LessonKey: search.LessonKey{Team: team, Tool: tool, Caller: caller}, At: start.Add(time.Duration(hours) * time.Hour),
		Terms: map[string]float64{"commit": 1.5, "größe": 1},
	}
}

func putLessons(t *testing.T, s *Store, lessons ...search.LessonRecord) {
	t.Helper()
	for _, l := range lessons {
		must(t, s.UpdateLesson(t.Context(), l.LessonKey, func(search.LessonRecord) search.LessonRecord { return l }))
	}
}

func wantLessons(t *testing.T, what string, s *Store, want ...search.LessonRecord) {
	t.Helper()
	got, err := s.Lessons(t.Context())
	must(t, err)
	if len(got)+len(want) == 0 {
		return
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}
