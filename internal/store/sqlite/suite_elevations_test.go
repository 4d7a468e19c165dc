package sqlite

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/policy"
)

var elevationTests = []test{
	{"an elevation comes back whole, also after reopening", func(t *testing.T, d database) {
		s := d.open(t)
		want := newElevation("a", "ann")
		must(t, s.AddElevation(t.Context(), want))
		for name, s := range map[string]*Store{"same handle": s, "reopened": d.open(t)} {
			got, err := s.Elevations(t.Context(), "ann", start)
			must(t, err)
			if diff := cmp.Diff([]*policy.Elevation{want}, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", name, diff)
			}
		}
		wantCode(t, "the same again", s.AddElevation(t.Context(), want), toolroom.CodeConflict)
	}},
	{"a subject's own are found, and all of them without one", func(t *testing.T, d database) {
		s := d.open(t)
		must(t, s.AddElevation(t.Context(), newElevation("a", "ann")))
		must(t, s.AddElevation(t.Context(), newElevation("b", "bob")))
		for subject, want := range map[string]int{"ann": 1, "bob": 1, "an": 0, "": 2} {
			got, err := s.Elevations(t.Context(), subject, start)
			must(t, err)
			if len(got) != want {
				t.Errorf("%q has %d elevations, want %d", subject, len(got), want)
			}
		}
	}},
	{"an elevation is over when its time is", func(t *testing.T, d database) {
		s := d.open(t)
		e := newElevation("a", "ann")
		must(t, s.AddElevation(t.Context(), e))
		for at, want := range map[time.Time]int{e.Expires.Add(-time.Microsecond): 1, e.Expires: 0} {
			got, err := s.Elevations(t.Context(), "ann", at)
			must(t, err)
			if len(got) != want {
				t.Errorf("at %s there are %d, want %d", at, len(got), want)
			}
		}
		wantCode(t, "ending it then", s.EndElevation(t.Context(), "a", e.Expires), toolroom.CodeNotFound)
	}},
	{"an elevation that is over stays so when the clock goes back", func(t *testing.T, d database) {
		s := d.open(t)
		e := newElevation("a", "ann")
		must(t, s.AddElevation(t.Context(), e))
		for _, step := range []struct {
			now  time.Time
			want int
		}{{e.Expires.Add(-time.Microsecond), 1}, {e.Expires, 0}} {
			must(t, s.ExpireElevations(t.Context(), step.now))
			got, err := s.Elevations(t.Context(), "ann", start)
			must(t, err)
			if len(got) != step.want {
				t.Errorf("after %s there are %d, want %d", step.now, len(got), step.want)
			}
		}
	}},
	{"an elevation that is taken back is over, once", func(t *testing.T, d database) {
		s := d.open(t)
		must(t, s.AddElevation(t.Context(), newElevation("a", "ann")))
		must(t, s.EndElevation(t.Context(), "a", start))
		if got, err := s.Elevations(t.Context(), "ann", start); err != nil || len(got) != 0 {
			t.Errorf("it is in force: %v, %v", got, err)
		}
		wantCode(t, "again", s.EndElevation(t.Context(), "a", start), toolroom.CodeNotFound)
		wantCode(t, "one that never was", s.EndElevation(t.Context(), "x", start), toolroom.CodeNotFound)
	}},
}

func newElevation(id, subject string) *policy.Elevation {
	return &policy.Elevation{
		ID: id, Subject: subject, Agent: "coder", Tools: []string{"shell.*"}, By: "olga", Reason: "a release",
		Created: start, Expires: start.Add(time.Minute),
	}
}
