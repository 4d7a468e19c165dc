package release_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/release"
)

func upload(name, text string) release.Upload {
	return release.Upload{Files: map[string]string{name: text}, File: name, Base: -1}
}

// wantConflict checks that err is a conflict with the difference of two texts.
func wantConflict(t *testing.T, what string, err error, parts ...string) {
	t.Helper()
	e := (*toolroom.Error)(nil)
	if !errors.As(err, &e) || e.Code != toolroom.CodeConflict {
		t.Errorf("%s: %v", what, err)
		return
	}
	diff, _ := e.Details["diff"].(string)
	for _, part := range parts {
		if !strings.Contains(diff, part) {
			t.Errorf("%s: %q is missing in the difference:\n%s", what, part, diff)
		}
	}
}

func TestOfTwoAuthorsTheSecondHearsConflictWithTheDifference(t *testing.T) {
	t.Parallel()
	s := newService(t, t.TempDir())
	ctx := t.Context()
	push := func(text string, base int) error {
		u := upload("x", text)
		u.Base = base
		_, err := s.Push(ctx, u, "ann")
		return err
	}
	if err := errors.Join(push("one\n", 0), push("two\n", 1)); err != nil {
		t.Fatal(err)
	}
	wantConflict(t, "push", push("three\n", 1), "-two", "+three")

	sync := func(text string, bases map[string]int) ([]release.Step, error) {
		return s.Sync(ctx, []release.Upload{upload("x", text)}, release.SyncOptions{Bases: bases}, "bob")
	}
	_, err := sync("three\n", map[string]int{"fn:x": 1})
	wantConflict(t, "sync", err, "-two", "+three")
	if plan, err := sync("two\n", map[string]int{"fn:x": 1}); err != nil || plan[0].Action != release.StepNothing {
		t.Errorf("the same text is a conflict: %v, %v", plan, err)
	}
	_, err = sync("four\n", nil)
	wantConflict(t, "a sync of a folder that knows no version", err, "-two", "+four")
	for _, bases := range []map[string]int{{"fn:x": 2}, nil} {
		text := "four\n"
		if bases == nil {
			text = "five\n" // the newest version is that of a sync
		}
		if plan, err := sync(text, bases); err != nil || plan[0].Action != release.StepChange {
			t.Errorf("bases %v: %v, %v", bases, plan, err)
		}
	}
	if err := push("six\n", -1); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Sync(ctx, []release.Upload{upload("x", "seven\n")}, release.SyncOptions{Force: true}, "bob"); err != nil {
		t.Error(err)
	}
	if err := push("eight\n", -1); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Sync(ctx, []release.Upload{upload("x", "nine\n")}, release.SyncOptions{}, "ann"); err != nil {
		t.Errorf("an author's own version is a conflict: %v", err)
	}
}

func TestSyncMakesTheCasesThoseOfTheFile(t *testing.T) {
	t.Parallel()
	s := newService(t, t.TempDir())
	ctx := t.Context()
	if _, err := s.Push(ctx, upload("x", "one"), "ann"); err != nil {
		t.Fatal(err)
	}
	kept := &release.Case{
		Tool: "fn:x", Name: "kept", Arguments: json.RawMessage(`{"n": 12345678901234567890}`), Expect: json.RawMessage(`1`),
		Fakes: []release.Fake{{Tool: "a:b", Arguments: json.RawMessage(`{"x": "<"}`), Value: json.RawMessage(`[1, 2]`)}, {Tool: "a:c", Error: toolroom.Errorf(toolroom.CodeDenied, "no")}},
	}
	for _, c := range []*release.Case{kept, {Tool: "fn:x", Name: "gone"}, {Tool: "fn:x", Name: "changed", Expect: json.RawMessage(`1`)}} {
		if err := s.AddCase(ctx, c); err != nil {
			t.Fatal(err)
		}
	}
	all, err := s.Store.Cases(ctx, "fn:x")
	if err != nil {
		t.Fatal(err)
	}
	text, err := release.WriteCases(all)
	if err != nil {
		t.Fatal(err)
	}
	sync := func(text []byte, dry bool) []string {
		t.Helper()
		u := upload("x", "one")
		if u.Cases, err = release.ReadCases(text); err != nil {
			t.Fatal(err)
		}
		plan, err := s.Sync(ctx, []release.Upload{u}, release.SyncOptions{DryRun: dry}, "bob")
		if err != nil {
			t.Fatal(err)
		}
		var notes []string
		for _, step := range plan {
			if step.Action == release.StepCase {
				notes = append(notes, strings.TrimSpace(step.Note))
			}
		}
		return notes
	}
	if notes := sync(text, true); notes != nil {
		t.Errorf("the file that was just written differs: %v\n%s", notes, text)
	}
	edited := []byte(`[{"name": "kept", "arguments": {"n": 12345678901234567890}, "expect": 1, "fakes": [{"tool": "a:b", "arguments": {"x": "<"}, "value": [1, 3]}]}, {"name": "changed", "expect": 1}, {"name": "new"}]`)
	want := `save "kept"; save "new"; remove "gone"`
	if notes := strings.Join(sync(edited, true), "; "); notes != want {
		t.Errorf("the plan is %s", notes)
	}
	sync(edited, false)
	if notes := sync(edited, true); notes != nil {
		t.Errorf("after the sync it differs: %v", notes)
	}
	all, err = s.Store.Cases(ctx, "fn:x")
	if err != nil || len(all) != 3 || len(all[1].Fakes) != 1 || string(all[1].Fakes[0].Value) != `[1,3]` {
		t.Errorf("cases %+v, %v", all, err)
	}
	if _, err := release.ReadCases([]byte(`[{"name": "x", "expects": 1}]`)); err == nil || !strings.Contains(err.Error(), "expects") {
		t.Errorf("an unknown member: %v", err)
	}
}

func TestASyncTakesTheSameToolTwiceUnlessTheTextsDiffer(t *testing.T) {
	t.Parallel()
	s := newService(t, t.TempDir())
	sync := func(texts ...string) ([]release.Step, error) {
		var uploads []release.Upload
		for _, text := range texts {
			uploads = append(uploads, upload("x", text))
		}
		return s.Sync(t.Context(), uploads, release.SyncOptions{}, "ann")
	}
	if plan, err := sync("one\n", "one\n"); err != nil || len(plan) != 1 || plan[0].Action != release.StepCreate {
		t.Errorf("copies: %v %v", plan, err)
	}
	if _, err := sync("one\n", "two\n"); toolroom.CodeOf(err) != toolroom.CodeConflict || !strings.Contains(err.Error(), "and differ") {
		t.Errorf("texts that differ: %v", err)
	}
}

func TestASyncDoesNotReleaseADeprecatedVersion(t *testing.T) {
	t.Parallel()
	s := newService(t, t.TempDir())
	ctx := t.Context()
	for _, name := range []string{"a", "b"} {
		if _, err := s.Push(ctx, upload(name, "one\n"), "ann"); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Deprecate(ctx, "fn:a", 1, "wrong", false, "ann"); err != nil {
		t.Fatal(err)
	}
	plan, err := s.Sync(ctx, []release.Upload{upload("a", "one\n"), upload("b", "one\n")}, release.SyncOptions{Environment: "test"}, "bob")
	if err != nil || len(plan) != 2 || plan[0].Action != release.StepNothing || plan[0].Note != ", which is deprecated: wrong" || plan[1].Action != release.StepRelease {
		t.Errorf("%+v %v", plan, err)
	}
}

func TestASyncDoesNotReleaseWhatWasTakenBack(t *testing.T) {
	t.Parallel()
	s := newService(t, t.TempDir())
	ctx := t.Context()
	for _, text := range []string{"zero\n", "one\n", "two\n"} {
		if _, err := s.Push(ctx, upload("a", text), "ann"); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Release(ctx, release.Order{Tool: "fn:a", Environment: "test"}, "ann"); err != nil {
			t.Fatal(err)
		}
	}
	for _, reason := range []string{"slow", "slow too"} {
		if _, err := s.Rollback(ctx, "fn:a", "test", 0, reason, "ann"); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct {
		text  string
		force bool
		want  release.Step
	}{
		{"two\n", false, release.Step{Action: release.StepNothing, Tool: "fn:a", Version: 3, Note: ", which was taken back from test: slow"}},
		{"two\n", true, release.Step{Action: release.StepRelease, Tool: "fn:a", Version: 3, Note: " to test"}},
		{"three\n", false, release.Step{Action: release.StepRelease, Tool: "fn:a", Version: 4, Note: " to test"}},
	} {
		plan, err := s.Sync(ctx, []release.Upload{upload("a", tt.text)}, release.SyncOptions{Environment: "test", DryRun: true, Force: tt.force, Bases: map[string]int{"fn:a": 3}}, "ann")
		if err != nil || len(plan) == 0 || plan[len(plan)-1] != tt.want {
			t.Errorf("%q, force %v: %+v %v", tt.text, tt.force, plan, err)
		}
	}
}
