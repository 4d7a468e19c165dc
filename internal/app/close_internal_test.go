package app

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/catalog"
	"github.com/toolroom/toolroom/internal/run"
	"github.com/toolroom/toolroom/internal/secret"
	"github.com/toolroom/toolroom/source"
)

// stuckSource is a source that does not return from a method until a channel is closed.
type stuckSource struct {
	source.Source
	in    string
	until chan struct{}
}

func (e *stuckSource) Tools(context.Context) ([]toolroom.Tool, error) {
	e.wait("Tools")
	return nil, nil
}

func (e *stuckSource) Close() error {
	e.wait("Close")
	return nil
}

func (e *stuckSource) wait(in string) {
	if e.in == in {
		<-e.until
	}
}

func TestASourceThatDoesNotEndIsLeftBehind(t *testing.T) {
	t.Parallel()
	for _, in := range []string{"Tools", "Close"} {
		synctest.Test(t, func(t *testing.T) {
			src := &stuckSource{in: in, until: make(chan struct{})}
			m := newManager(&sourceManager{
				name: "endless", src: src, catalog: catalog.New(catalog.Options{}), redactor: &secret.Redactor{}, log: slog.New(slog.DiscardHandler), library: &catalog.Library{},
			})
			m.startListing(false)
			synctest.Wait()
			closed := make(chan error, 1)
			go func() { closed <- m.Close() }()
			select {
			case err := <-closed:
				if toolroom.CodeOf(err) != toolroom.CodeTimeout {
					t.Errorf("%s: got %v", in, err)
				}
			case <-time.After(time.Hour):
				t.Errorf("Close waits for %s", in)
			}
			close(src.until)
		})
	}
}

func TestShadowRunsEndWithTheRoom(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWatching(&App{runner: run.New(run.Options{Catalog: catalog.New(catalog.Options{})})})
		var shadow time.Duration
		began := time.Now()
		w.work.Go(func() {
			<-w.ctx.Done() // as a run of a function that hangs
			shadow = time.Since(began)
		})
		w.close(closeTimeout)
		if shadow != closeTimeout {
			t.Errorf("it took %s", shadow)
		}
		began = time.Now()
		if w.close(closeTimeout); time.Since(began) > 0 {
			t.Error("a second close waits")
		}
	})
}

func TestCloseReturnsThoughSomethingDoesNotEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := &App{log: slog.New(slog.DiscardHandler)}
		end := make(chan struct{})
		a.background.Go(func() { <-end })
		begun := time.Now()
		if err := a.Close(); toolroom.CodeOf(err) != toolroom.CodeInternal || time.Since(begun) != closeLimit {
			t.Errorf("after %s Close returned %v", time.Since(begun), err)
		}
		if err := a.Close(); err != nil {
			t.Errorf("the second time Close returned %v", err)
		}
		close(end) // then it closes the rest
	})
}
