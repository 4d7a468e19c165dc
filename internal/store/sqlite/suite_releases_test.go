package sqlite

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/release"
)

var releaseTests = []test{
	{"versions count from 1 and come back whole, newest first, also after reopening", func(t *testing.T, d database) {
		s := d.open(t)
		first, second := putVersion(t, s, "fn:a", "one"), putVersion(t, s, "fn:a", "two")
		other := putVersion(t, s, "fn:b", "one")
		if first.Number != 1 || second.Number != 2 || other.Number != 1 {
			t.Errorf("numbers %d, %d, %d", first.Number, second.Number, other.Number)
		}
		for name, s := range map[string]*Store{"same handle": s, "reopened": d.open(t)} {
			got, err := s.Versions(t.Context(), "fn:a")
			must(t, err)
			if diff := cmp.Diff([]*release.Version{second, first}, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", name, diff)
			}
			tools, err := s.VersionedTools(t.Context())
			must(t, err)
			want := []release.Head{{Tool: "fn:a", Number: 2, Digest: second.Digest, Status: second.Status}, {Tool: "fn:b", Number: 1, Digest: other.Digest, Status: other.Status}}
			if diff := cmp.Diff(want, tools); diff != "" {
				t.Errorf("%s: %s", name, diff)
			}
		}
		_, err := s.Version(t.Context(), "fn:a", 3)
		wantCode(t, "version 3", err, toolroom.CodeNotFound)
	}},
	{"the same content again is no version, and of many authors one is first", func(t *testing.T, d database) {
		created := race(t, d, func(s *Store, _ int) bool {
			_, created, err := s.PutVersion(t.Context(), newVersion("fn:a", "one"), -1)
			return err == nil && created
		})
		if created != 1 {
			t.Errorf("%d versions were created", created)
		}
	}},
	{"a version that is based on an older one is a conflict", func(t *testing.T, d database) {
		s := d.open(t)
		putVersion(t, s, "fn:a", "one")
		putVersion(t, s, "fn:a", "two")
		_, _, err := s.PutVersion(t.Context(), newVersion("fn:a", "three"), 1)
		wantCode(t, "based on 1", err, toolroom.CodeConflict)
		v, created, err := s.PutVersion(t.Context(), newVersion("fn:a", "three"), 2)
		must(t, err)
		if !created || v.Number != 3 {
			t.Errorf("based on 2: version %d, created %v", v.Number, created)
		}
	}},
	{"the last card of a tool counts", func(t *testing.T, d database) {
		s := d.open(t)
		first := release.Card{Tool: "fn:a", Name: "A", Author: "ann", Created: start}
		must(t, s.PutCard(t.Context(), first))
		second := first
		second.Description = "a"
		must(t, s.PutCard(t.Context(), second))
		got, err := d.open(t).Cards(t.Context())
		must(t, err)
		if diff := cmp.Diff([]release.Card{second}, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}},
	{"a definition is stored once, and released if the one before is served", func(t *testing.T, d database) {
		put := func(s *Store, content string, from int, released bool) int {
			v := newVersion("a:x", content)
			v.Spec.Source = "a"
			must(t, s.PutOffers(t.Context(), []release.Offer{{Version: v, Release: released, From: from, Demoted: release.StatusDeprecated}}))
			return v.Number
		}
		numbers := make(chan int, racers)
		race(t, d, func(s *Store, _ int) bool { numbers <- put(s, "one", 0, true); return true })
		for range racers {
			if n := <-numbers; n != 1 {
				t.Errorf("a definition became version %d", n)
			}
		}
		s := d.open(t)
		put(s, "two", 0, true) // served is 1
		put(s, "three", 1, true)
		put(s, "one", 3, true) // offered again
		put(s, "one", 3, true)
		must(t, func() error { _, _, err := s.PutVersion(t.Context(), newVersion("ab:x", "other"), -1); return err }())
		heads, err := s.Heads(t.Context(), "a")
		must(t, err)
		var got []string
		for _, h := range heads {
			got = append(got, fmt.Sprint(h.Tool, h.Source, h.Number, h.Status, h.Served))
		}
		if diff := cmp.Diff([]string{fmt.Sprint("a:x", "a", 3, release.StatusDeprecated, false), fmt.Sprint("a:x", "a", 2, release.StatusDraft, false), fmt.Sprint("a:x", "a", 1, release.StatusActive, true)}, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		log, err := s.ReleaseLog(t.Context(), "a:x", -1)
		must(t, err)
		if len(log) != 4 || log[0].Previous != 3 || log[0].Version != 1 || log[2].Environment != "" {
			t.Errorf("the log is %+v", log)
		}
	}},
	{"of the definitions that a source changes all the time the newest are kept, and what people decided on", func(t *testing.T, d database) {
		s := d.open(t)
		served := 0
		put := func(content string, released bool) int {
			v := newVersion("a:x", content)
			v.Spec.Source = "a"
			must(t, s.PutOffers(t.Context(), []release.Offer{{Version: v, Release: released, From: served, Demoted: release.StatusDeprecated}}))
			if released {
				served = v.Number
			}
			return v.Number
		}
		put("first", true)
		put("refused", false)
		must(t, s.SetVersionStatus(t.Context(), "a:x", 2, release.StatusDeprecated, release.Entry{Action: release.ActionDeprecate, Tool: "a:x", Version: 2, Reason: "no"}))
		put("chosen", false)
		must(t, s.MoveRelease(t.Context(), move("a:x", release.Prod, 1, 3)))
		served = 3
		put("by itself", true)
		const many = 150
		for i := range many {
			if n := put(fmt.Sprint("at ", i), false); n != 5+i {
				t.Fatalf("definition %d is version %d", i, n)
			}
		}
		heads, err := s.Heads(t.Context(), "a")
		must(t, err)
		var old []int
		for _, h := range heads {
			if h.Number < 5+many-100 {
				old = append(old, h.Number)
			}
		}
		if fmt.Sprint(old) != "[4 3 2 1]" || len(heads) != 104 {
			t.Errorf("%d versions are kept, the old ones %v", len(heads), old)
		}
		log, err := s.ReleaseLog(t.Context(), "a:x", -1)
		must(t, err)
		if len(log) > 104+2 {
			t.Errorf("the log has %d entries", len(log))
		}
	}},
	{"a release is moved by whoever knows what is served, and by one only", func(t *testing.T, d database) {
		s := d.open(t)
		for i := range racers {
			putVersion(t, s, "fn:a", fmt.Sprint(i))
		}
		wins := race(t, d, func(s *Store, racer int) bool {
			return s.MoveRelease(t.Context(), move("fn:a", release.Prod, 0, racer+1)) == nil
		})
		if wins != 1 {
			t.Errorf("%d moves from nothing succeeded", wins)
		}
		releases, err := s.Releases(t.Context())
		must(t, err)
		if len(releases) != 1 {
			t.Fatalf("releases %v", releases)
		}
		active := 0
		versions, err := s.Versions(t.Context(), "fn:a")
		must(t, err)
		for _, v := range versions {
			if v.Status == release.StatusActive {
				active++
				if v.Number != releases[0].Version {
					t.Errorf("version %d is active, and %d is served", v.Number, releases[0].Version)
				}
			}
		}
		if active != 1 {
			t.Errorf("%d versions are active", active)
		}
		wantCode(t, "from another version", s.MoveRelease(t.Context(), move("fn:a", release.Prod, racers+1, 1)), toolroom.CodeConflict)
		wantCode(t, "to a version that is not there", s.MoveRelease(t.Context(), move("fn:a", release.Prod, releases[0].Version, racers+1)), toolroom.CodeNotFound)
	}},
	{"a release to test leaves the status, one to nothing ends it, and all is in the log", func(t *testing.T, d database) {
		s := d.open(t)
		putVersion(t, s, "fn:a", "one")
		before, err := s.ReleaseRevision(t.Context())
		must(t, err)
		must(t, s.MoveRelease(t.Context(), move("fn:a", release.Test, 0, 1)))
		v, err := s.Version(t.Context(), "fn:a", 1)
		must(t, err)
		if v.Status != release.StatusDraft {
			t.Errorf("status %s after a release to test", v.Status)
		}
		must(t, s.MoveRelease(t.Context(), move("fn:a", release.Prod, 0, 1)))
		must(t, s.MoveRelease(t.Context(), move("fn:a", release.Prod, 1, 0)))
		v, err = s.Version(t.Context(), "fn:a", 1)
		must(t, err)
		if v.Status != release.StatusDeprecated {
			t.Errorf("status %s after the release ended", v.Status)
		}
		releases, err := s.Releases(t.Context())
		must(t, err)
		if diff := cmp.Diff([]release.Release{{Tool: "fn:a", Environment: release.Test, Version: 1}}, releases); diff != "" {
			t.Error(diff)
		}
		log, err := s.ReleaseLog(t.Context(), "fn:a", 2)
		must(t, err)
		if len(log) != 2 || log[0].Previous != 1 || log[0].Version != 0 || log[1].Version != 1 {
			t.Errorf("log %+v", log)
		}
		after, err := s.ReleaseRevision(t.Context())
		must(t, err)
		if after != before+3 || log[0].Seq != after {
			t.Errorf("revision %d after %d, last entry %d", after, before, log[0].Seq)
		}
	}},
	{"a status is changed with its reason, of a version that is there", func(t *testing.T, d database) {
		s := d.open(t)
		putVersion(t, s, "fn:a", "one")
		e := release.Entry{Time: start, Action: release.ActionDeprecate, Tool: "fn:a", Version: 1, Reason: "wrong"}
		must(t, s.SetVersionStatus(t.Context(), "fn:a", 1, release.StatusDeprecated, e))
		v, err := d.open(t).Version(t.Context(), "fn:a", 1)
		must(t, err)
		if v.Status != release.StatusDeprecated || v.Reason != "wrong" {
			t.Errorf("status %s, reason %q", v.Status, v.Reason)
		}
		wantCode(t, "version 2", s.SetVersionStatus(t.Context(), "fn:a", 2, release.StatusDraft, e), toolroom.CodeNotFound)
	}},
	{"cases are kept by name and replaced", func(t *testing.T, d database) {
		s := d.open(t)
		c := &release.Case{Tool: "fn:a", Name: "x", Arguments: json.RawMessage(`{"x":1}`), Expect: json.RawMessage("2"), Created: start}
		must(t, s.PutCase(t.Context(), c))
		changed := *c
		changed.Expect = json.RawMessage("3")
		must(t, s.PutCase(t.Context(), &changed))
		must(t, s.PutCase(t.Context(), &release.Case{Tool: "fn:b", Name: "x", Arguments: json.RawMessage("{}"), Created: start}))
		got, err := d.open(t).Cases(t.Context(), "fn:a")
		must(t, err)
		if diff := cmp.Diff([]*release.Case{&changed}, got); diff != "" {
			t.Error(diff)
		}
		must(t, s.RemoveCase(t.Context(), "fn:a", "x"))
		wantCode(t, "again", s.RemoveCase(t.Context(), "fn:a", "x"), toolroom.CodeNotFound)
		all, err := s.Cases(t.Context(), "")
		must(t, err)
		if len(all) != 1 || all[0].Tool != "fn:b" {
			t.Errorf("cases %v", all)
		}
	}},
}

func newVersion(tool, content string) *release.Version {
	return &release.Version{
		Tool: tool, Digest: "digest of " + content, Status: release.StatusDraft, Message: content, Author: "ada", Created: start,
		Spec: release.Spec{
			Language: "python", Files: map[string]string{"a.py": content}, File: "a.py", Entry: "a", InputSchema: json.RawMessage(`{"type":"object"}`),
			Plan: release.Plan{Convert: []string{"x"}},
		},
	}
}

func putVersion(t *testing.T, s *Store, tool, content string) *release.Version {
	t.Helper()
	v, _, err := s.PutVersion(t.Context(), newVersion(tool, content), -1)
	must(t, err)
	return v
}

func move(tool, environment string, from, to int) release.Move {
	return release.Move{
		From: from, To: release.Release{Tool: tool, Environment: environment, Version: to}, Demoted: release.StatusDeprecated,
		Entry: release.Entry{Time: start, Who: "ada", Action: release.ActionRelease, Tool: tool, Environment: environment, Version: to, Previous: from},
	}
}
