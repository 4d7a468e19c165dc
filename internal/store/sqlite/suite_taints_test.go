package sqlite

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toolroom/toolroom/internal/taint"
)

var taintTests = []test{
	{"labels of a session stay with it and its owner, also after reopening", func(t *testing.T, d database) {
		s := d.open(t)
		one, two := taint.Label{Name: "private", Tool: "a:x"}, taint.Label{Name: "untrusted", Tool: "b:y"}
		must(t, s.AddTaints(t.Context(), "ann", "s1", []taint.Label{one, two}, start))
		must(t, s.AddTaints(t.Context(), "ann", "s2", []taint.Label{two}, start))
		for name, s := range map[string]*Store{"same handle": s, "reopened": d.open(t)} {
			wantLabels(t, name, s, "ann", "s1", time.Time{}, one, two)
			wantLabels(t, name, s, "ann", "s2", time.Time{}, two)
			wantLabels(t, name, s, "bob", "s1", time.Time{})
			wantLabels(t, name, s, "ann", "", time.Time{})
		}
	}},
	{"a label that is read again is as new as then, and never older", func(t *testing.T, d database) {
		s := d.open(t)
		one := taint.Label{Name: "private", Tool: "a:x"}
		must(t, s.AddTaints(t.Context(), "ann", "", []taint.Label{one}, start))
		wantLabels(t, "at the time", s, "ann", "", start, one)
		wantLabels(t, "later", s, "ann", "", start.Add(time.Second))
		must(t, s.AddTaints(t.Context(), "ann", "", []taint.Label{one}, start.Add(time.Minute)))
		must(t, s.AddTaints(t.Context(), "ann", "", []taint.Label{one}, start))
		wantLabels(t, "read again", s, "ann", "", start.Add(time.Second), one)
	}},
	{"what is removed is gone, and of that session alone", func(t *testing.T, d database) {
		s := d.open(t)
		one := taint.Label{Name: "private", Tool: "a:x"}
		must(t, s.AddTaints(t.Context(), "ann", "s1", []taint.Label{one}, start))
		must(t, s.AddTaints(t.Context(), "ann", "s2", []taint.Label{one}, start))
		must(t, s.AddTaints(t.Context(), "bob", "s1", []taint.Label{one}, start))
		removed, err := s.RemoveTaints(t.Context(), "ann", "s1")
		must(t, err)
		if len(removed) != 1 || removed[0] != one {
			t.Errorf("it removed %v", removed)
		}
		wantLabels(t, "removed", d.open(t), "ann", "s1", time.Time{})
		wantLabels(t, "another session", s, "ann", "s2", time.Time{}, one)
		wantLabels(t, "another caller", s, "bob", "s1", time.Time{}, one)
	}},
	{"what is older than it is kept goes when something is added", func(t *testing.T, d database) {
		s := d.open(t)
		one := taint.Label{Name: "private", Tool: "a:x"}
		must(t, s.AddTaints(t.Context(), "ann", "old", []taint.Label{one}, start))
		must(t, s.AddTaints(t.Context(), "ann", "at the edge", []taint.Label{one}, start.Add(time.Second)))
		must(t, s.AddTaints(t.Context(), "bob", "new", []taint.Label{one}, start.Add(taint.Retention+time.Second)))
		wantLabels(t, "gone", s, "ann", "old", time.Time{})
		wantLabels(t, "kept", s, "ann", "at the edge", time.Time{}, one)
	}},
	{"many can add the same at once", func(t *testing.T, d database) {
		one := taint.Label{Name: "private", Tool: "a:x"}
		if wins := race(t, d, func(s *Store, _ int) bool {
			return s.AddTaints(t.Context(), "ann", "s", []taint.Label{one}, start) == nil
		}); wins != racers {
			t.Errorf("%d of %d could", wins, racers)
		}
		wantLabels(t, "after all", d.open(t), "ann", "s", time.Time{}, one)
	}},
}

func wantLabels(t *testing.T, what string, s *Store, owner, session string, since time.Time, want ...taint.Label) {
	t.Helper()
	got, err := s.Taints(t.Context(), owner, session, since)
	must(t, err)
	if diff := cmp.Diff(taint.Sorted(want), taint.Sorted(got)); diff != "" && len(want)+len(got) > 0 {
		t.Errorf("%s, %s of %s (-want +got):\n%s", what, session, owner, diff)
	}
}
