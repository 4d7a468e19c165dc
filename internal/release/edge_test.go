package release_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/release"
)

// fullStore has no room for cases.
type fullStore struct{ release.Store }

func (fullStore) PutCase(context.Context, *release.Case) error { return errors.New("the disk is full") }

func TestAVersionWhoseCasesAreNotStoredHasAReceiptAndIsKnown(t *testing.T) {
	t.Parallel()
	s := newService(t, t.TempDir())
	s.Store = fullStore{s.Store}
	inspect := s.Inspect
	s.Inspect = func(ctx context.Context, u release.Upload) ([]release.Found, error) {
		found, err := inspect(ctx, u)
		found[0].Cases = []*release.Case{{Tool: "fn:a", Name: "one", Arguments: json.RawMessage(`{}`)}}
		return found, err
	}
	var recorded []release.Action
	s.Record = func(_ context.Context, e release.Entry, _ *release.Version, _ error) {
		recorded = append(recorded, e.Action)
	}
	changed := 0
	s.Changed = func(context.Context) error { changed++; return nil }
	pushed, err := s.Push(t.Context(), release.Upload{Files: map[string]string{"a": "x"}, File: "a", Base: -1}, "ada")
	if err == nil || !strings.Contains(err.Error(), "the disk is full") {
		t.Fatal(err)
	}
	if len(recorded) != 1 || recorded[0] != release.ActionPush || changed != 1 || len(pushed) != 1 || pushed[0].Cases != 0 {
		t.Errorf("recorded %v, changed %d times, %+v", recorded, changed, pushed)
	}
}

func TestAnAssertionSeesAllDigits(t *testing.T) {
	t.Parallel()
	s := newService(t, t.TempDir())
	s.Run = func(context.Context, toolroom.Call) *toolroom.Result {
		return &toolroom.Result{Status: toolroom.StatusOK, Value: json.RawMessage(`{"id": 9007199254740992, "part": 0.5}`)}
	}
	if _, err := s.Push(t.Context(), release.Upload{Files: map[string]string{"a": "x"}, File: "a", Base: -1}, "ada"); err != nil {
		t.Fatal(err)
	}
	for name, assert := range map[string]string{
		"wrong": "value.id == 9007199254740993", "argument": "value.id == arguments.id", "right": "value.id == 9007199254740992 && value.part == 0.5 && value.id > 1.5",
	} {
		if err := s.AddCase(t.Context(), &release.Case{Tool: "fn:a", Name: name, Arguments: json.RawMessage(`{"id": 9007199254740993}`), Assert: assert}); err != nil {
			t.Fatal(err)
		}
	}
	v, err := s.Pick(t.Context(), "fn:a", 0)
	if err != nil {
		t.Fatal(err)
	}
	outcomes, err := s.TestCases(t.Context(), v)
	if err != nil || len(outcomes) != 3 {
		t.Fatal(outcomes, err)
	}
	for _, o := range outcomes {
		if o.OK != (o.Case == "right") {
			t.Errorf("%s: %v %s", o.Case, o.OK, o.Problem)
		}
	}
}

func TestTheHintForAToolThatWasTakenBackDoesNotReleaseItAgain(t *testing.T) {
	t.Parallel()
	s := newService(t, t.TempDir())
	push := func(text string) {
		t.Helper()
		if _, err := s.Push(t.Context(), release.Upload{Files: map[string]string{"a": text}, File: "a", Base: -1}, "ada"); err != nil {
			t.Fatal(err)
		}
	}
	wantHint := func(want string) {
		t.Helper()
		table, err := release.Load(t.Context(), s.Store)
		if err != nil {
			t.Fatal(err)
		}
		_, _, err = table.Choose("fn:a", release.Prod, toolroom.Identity{})
		if got := toolroom.AsError(err).CLIHint; got != want {
			t.Errorf("hint %q, want %q", got, want)
		}
	}
	push("one")
	wantHint("release it: toolroom tool release fn:a --env prod")
	if _, err := s.Release(t.Context(), release.Order{Tool: "fn:a"}, "ada"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Rollback(t.Context(), "fn:a", release.Prod, 0, "", "ada"); err != nil {
		t.Fatal(err)
	}
	wantHint("version 1 was taken back; choose a version: toolroom tool show fn:a")
	push("two")
	wantHint("release it: toolroom tool release fn:a --env prod")
}

// A tool is not deleted. RollbackAll makes an environment serve none of its versions, and a
// later rollback does not bring them back.
func TestRollbackAllServesNoVersion(t *testing.T) {
	t.Parallel()
	s := newService(t, t.TempDir())
	for _, text := range []string{"one", "two", "three"} {
		if _, err := s.Push(t.Context(), release.Upload{Files: map[string]string{"a": text}, File: "a", Base: -1}, "ada"); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Release(t.Context(), release.Order{Tool: "fn:a"}, "ada"); err != nil {
			t.Fatal(err)
		}
	}
	moved, err := s.RollbackAll(t.Context(), "fn:a", "", "unused", "ada")
	if err != nil || moved.Version != 0 || moved.Previous != 3 || moved.Environment != release.Prod {
		t.Fatalf("%+v, %v", moved, err)
	}
	table, err := release.Load(t.Context(), s.Store)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := table.Choose("fn:a", release.Prod, toolroom.Identity{}); err == nil {
		t.Error("a version is served")
	}
	if _, err := s.RollbackAll(t.Context(), "fn:a", "", "", "ada"); toolroom.CodeOf(err) != toolroom.CodeConflict {
		t.Errorf("with nothing released: %v", err)
	}
	if _, err := s.Release(t.Context(), release.Order{Tool: "fn:a", Version: 2}, "ada"); err != nil {
		t.Fatal(err)
	}
	if moved, err = s.Rollback(t.Context(), "fn:a", "", 0, "", "ada"); err != nil || moved.Version != 0 {
		t.Errorf("rollback after a new release: %+v, %v", moved, err)
	}
}
