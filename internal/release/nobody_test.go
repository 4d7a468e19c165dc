package release_test

import (
	"testing"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/release"
)

// A canary for nobody would be a release to everybody.
func TestACanaryForNobodyIsRefused(t *testing.T) {
	t.Parallel()
	s := newService(t, t.TempDir())
	for _, text := range []string{"a", "b"} {
		if _, err := s.Push(t.Context(), release.Upload{Files: map[string]string{"x": text}, File: "x", Base: -1}, "ada"); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.Release(t.Context(), release.Order{Tool: "fn:x", Version: 1}, "ada"); err != nil {
		t.Fatal(err)
	}
	for _, callers := range [][]string{{}, {""}, {"ann", " "}} {
		o := release.Order{Tool: "fn:x", Version: 2}
		o.Callers = callers
		if moved, err := s.Release(t.Context(), o, "ada"); toolroom.CodeOf(err) != toolroom.CodeInvalidArguments {
			t.Errorf("%q: %+v, %v", callers, moved, err)
		}
	}
}
