package app

import (
	"context"
	"log/slog"
	"testing"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/catalog"
	"github.com/toolroom/toolroom/internal/secret"
)

// panicking is a source that panics when it is listed.
type panicking struct{ gone }

func (*panicking) Tools(context.Context) ([]toolroom.Tool, error) { panic("boom") }

func TestASourceThatPanicsWhenItIsListedFails(t *testing.T) {
	t.Parallel()
	h := newManager(&sourceManager{
		name: "bad", src: &panicking{}, catalog: catalog.New(catalog.Options{}), redactor: &secret.Redactor{}, log: slog.New(slog.DiscardHandler), library: &catalog.Library{},
	})
	defer h.Close()
	if err := h.list(t.Context()); toolroom.CodeOf(err) != toolroom.CodeInternal {
		t.Errorf("got %v", err)
	}
}
