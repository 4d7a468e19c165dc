package code

import (
	"context"
	"errors"
	"testing"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/artifact"
	"github.com/toolroom/toolroom/internal/run"
	"github.com/toolroom/toolroom/source"
)

// brokenTokens cannot tell which tokens are valid.
type brokenTokens struct{}

func (brokenTokens) Check(context.Context, string) error { return errors.New("the database is locked") }

func TestAnArtifactIsNotReadIfTheTokenCannotBeChecked(t *testing.T) {
	t.Parallel()
	runner := run.New(run.Options{Tokens: brokenTokens{}})
	h := &handler{
		Service: &Service{o: Options{Runner: runner, Artifacts: &artifact.Store{}}},
		request: &source.Request{Identity: toolroom.Identity{Subject: "ann", Token: "t1"}},
	}
	_, _, err := h.Get(t.Context(), "art_1", 0, 0)
	if err == nil || err.Error() != "the database is locked" {
		t.Errorf("the artifact is read: %v", err)
	}
}
