package app

import (
	"context"
	"encoding/json"
	"log/slog"
	"maps"
	"strings"
	"testing"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/config"
	"github.com/toolroom/toolroom/internal/release"
)

// looking is a log that runs a function when a definition was released by itself.
type looking struct {
	slog.Handler
	look func()
}

func (looking) Enabled(context.Context, slog.Level) bool { return true }

func (l looking) Handle(_ context.Context, r slog.Record) error {
	if strings.HasPrefix(r.Message, "a changed definition") {
		l.look()
	}
	return nil
}

func TestWhatCallsReadOfDefinitionsIsNotChangedInPlace(t *testing.T) {
	t.Parallel()
	a, err := Open(t.Context(), Options{Home: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Close() })
	var shared, then map[toolroom.ID]release.Offered
	a.log = slog.New(looking{a.log.Handler(), func() {
		shared = a.definitions.tools["pets"]
		then = maps.Clone(shared)
	}})
	id := toolroom.MustParseID("pets:list")
	for _, text := range []string{"Lists pets.", "Lists all pets."} {
		a.admit(t.Context(), "pets", trust{definitions: config.DefinitionsAuto}, []toolroom.Tool{{ID: id, Description: text, InputSchema: json.RawMessage(`{"type":"object"}`)}})
	}
	if len(then) != 1 || !maps.Equal(shared, then) {
		t.Errorf("a call that looked at %v sees it change to %v without a lock", then, shared)
	}
	if o, ok := a.definitions.of(id); !ok || o.Served != 2 {
		t.Errorf("in the end it is %+v", o)
	}
}
