package app_test

import (
	"context"
	"testing"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/app"
	"github.com/toolroom/toolroom/source"
)

// notified is a source that uses its room when it gets the functions to call.
type notified struct {
	source.Source
	use func()
}

func (n notified) Notify(source.Events)                         { n.use() }
func (notified) Tools(context.Context) ([]toolroom.Tool, error) { return nil, nil }
func (notified) Close() error                                   { return nil }

func TestAnAddedSourceMayUseTheRoomAtOnce(t *testing.T) {
	t.Parallel()
	r, err := app.Open(t.Context(), app.Options{})
	if err != nil {
		t.Fatal(err)
	}
	added := make(chan error, 1)
	go func() { added <- r.AddSource("own", notified{use: func() { r.Sources() }}, app.SourceOptions{}) }()
	select {
	case err := <-added:
		if err != nil {
			t.Fatal(err)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("AddSource holds a lock of the room while it calls the source") // and the room cannot be closed
	}
	if s := r.Sources(); len(s) != 1 || s[0].Name != "own" {
		t.Errorf("the sources are %+v", s)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
}
