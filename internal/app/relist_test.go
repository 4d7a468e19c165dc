package app

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/catalog"
	"github.com/toolroom/toolroom/internal/secret"
	"github.com/toolroom/toolroom/source"
)

// gone is a source that cannot be listed until it is back.
type gone struct {
	source.Source
	back atomic.Bool

	mu    sync.Mutex
	tried []time.Time
}

func (g *gone) tries() []time.Time {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.tried)
}

func (g *gone) Tools(context.Context) ([]toolroom.Tool, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.tried = append(g.tried, time.Now())
	if g.back.Load() {
		return nil, nil
	}
	return nil, toolroom.Errorf(toolroom.CodeUpstreamUnavailable, "gone")
}

func (g *gone) Describe() source.Description { return source.Description{} }

func (g *gone) Close() error { return nil }

func TestASourceThatWasNeverListedIsTriedLessOftenTheLongerItIsGone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := &gone{}
		h := newManager(&sourceManager{
			name: "gone", src: g, catalog: catalog.New(catalog.Options{}), redactor: &secret.Redactor{}, log: slog.New(slog.DiscardHandler), library: &catalog.Library{},
		})
		defer h.Close()
		h.listUntilSuccess()
		time.Sleep(24 * time.Hour)
		synctest.Wait()
		// A second at first, a twentieth of the time that it has been gone, five
		// minutes at last; and up to a quarter more.
		tried := g.tries()
		began := tried[0]
		for i, at := range tried[1:] {
			since := tried[i].Sub(began)
			least := min(max(since/20, time.Second), 5*time.Minute)
			if pause := at.Sub(tried[i]); pause < least || pause > least*5/4 {
				t.Fatalf("try %d came %s after the one before, %s since the first: want %s to %s", i+1, pause, since, least, least*5/4)
			}
		}
		if n := len(tried); n < 24*12*4/5 {
			t.Errorf("it was tried %d times in a day", n)
		}
		g.back.Store(true)
		time.Sleep(lastRelist * 5 / 4)
		synctest.Wait()
		found := len(g.tries())
		time.Sleep(time.Hour)
		h.mu.Lock()
		listed := h.listed
		h.mu.Unlock()
		if n := len(g.tries()); n != found || !listed {
			t.Errorf("it is back and listed: %t, and was tried %d times more", listed, n-found)
		}
	})
}

// endless is a source whose list never ends.
type endless struct{ source.Source }

func (endless) Tools(ctx context.Context) ([]toolroom.Tool, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func (endless) Close() error { return nil }

func TestASourceThatIsNotListedInTimeIsNamedWithTheLimit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newManager(&sourceManager{
			name: "slow", src: endless{}, catalog: catalog.New(catalog.Options{}), redactor: &secret.Redactor{}, log: slog.New(slog.DiscardHandler), library: &catalog.Library{},
		})
		defer h.Close()
		err := toolroom.AsError(h.list(t.Context()))
		if err.Code != toolroom.CodeTimeout || err.Message != "source slow did not list its tools within 1m30s" || err.CLIHint != "toolroom sources test slow" {
			t.Errorf("%s: %s; %s", err.Code, err.Message, err.Hints())
		}
	})
}

// counted is a source that counts its lists. The first fails when it is told to, and the
// second takes a while.
type counted struct {
	source.Source
	lists      atomic.Int64
	began, end chan struct{}
}

func (c *counted) Tools(context.Context) ([]toolroom.Tool, error) {
	switch c.lists.Add(1) {
	case 1:
		close(c.began)
		<-c.end
		return nil, toolroom.Errorf(toolroom.CodeUpstreamUnavailable, "not yet")
	case 2:
		time.Sleep(5 * time.Millisecond)
	}
	return nil, nil
}

func (c *counted) Describe() source.Description { return source.Description{} }

func (c *counted) Close() error { return nil }

func TestAChangeAsOneListEndsAndAnotherBeginsIsListed(t *testing.T) {
	t.Parallel()
	for range 20 {
		c := &counted{began: make(chan struct{}), end: make(chan struct{})}
		m := newManager(&sourceManager{
			name: "busy", src: c, catalog: catalog.New(catalog.Options{}), redactor: &secret.Redactor{}, log: slog.New(slog.DiscardHandler), library: &catalog.Library{},
		})
		first := m.startListing(false)
		<-c.began
		// The first list looks whether to list again before another one may begin, so it does
		// not end while the test holds the lock that this needs.
		m.mu.Lock()
		close(c.end)
		select {
		case <-first.ended:
		case <-time.After(5 * time.Millisecond):
		}
		m.mu.Unlock()
		second := m.startListing(false)
		m.startListing(true)
		m.work.Wait()
		want := int64(2) // the first, and one after the change
		if second != first {
			want = 3
		}
		if n := c.lists.Load(); n < want {
			t.Errorf("the source was listed %d times, want %d", n, want)
		}
		if err := m.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
