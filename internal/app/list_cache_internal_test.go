package app

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/catalog"
	"github.com/toolroom/toolroom/internal/config"
	"github.com/toolroom/toolroom/internal/secret"
	"github.com/toolroom/toolroom/source"
)

// slow is a source whose list takes a time.
type slow struct {
	source.Source
	takes time.Duration
	name  string
}

func (s *slow) Tools(ctx context.Context) ([]toolroom.Tool, error) {
	select {
	case <-time.After(s.takes):
		return []toolroom.Tool{{ID: toolroom.ID{Namespace: "s", Name: s.name}}}, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (s *slow) Describe() source.Description { return source.Description{} }

func (s *slow) Close() error { return nil }

func TestAnOldListIsUsedWhileItsSourceIsSlow(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "lists", "s.json")
	synctest.Test(t, func(t *testing.T) {
		open := func(takes time.Duration, name string) *sourceManager {
			m := newManager(&sourceManager{
				name: "s", src: &slow{takes: takes, name: name}, cache: &listCache{path: path, digest: "d", now: time.Now},
				catalog: catalog.New(catalog.Options{}), redactor: &secret.Redactor{}, log: slog.New(slog.DiscardHandler), library: &catalog.Library{},
			})
			m.publish()
			return m
		}
		for _, c := range []struct {
			later, takes  time.Duration // since the last list
			name, want    string
			wait          time.Duration
			listed, isOld bool
		}{
			{0, time.Minute, "first", "first", time.Minute, false, false}, // nothing is known
			{listAge, time.Minute, "second", "first", 0, true, false},
			{2 * listAge, time.Minute, "third", "first", refreshWait, true, true},
			{2 * listAge, time.Second, "fourth", "fourth", time.Second, true, false},
			{0, time.Second, "fifth", "fourth", 0, true, false},
		} {
			time.Sleep(c.later)
			m := open(c.takes, c.name)
			if m.listed != c.listed {
				t.Errorf("%s: listed %v", c.name, m.listed)
			}
			began := time.Now()
			if err := m.load(t.Context()); err != nil {
				t.Fatal(err)
			}
			if waited := time.Since(began); waited != c.wait {
				t.Errorf("%s: waited %s, not %s", c.name, waited, c.wait)
			}
			m.mu.Lock()
			old := !m.outdated.IsZero()
			m.mu.Unlock()
			if got := m.listedTools(); len(got) != 1 || got[0].ID.Name != c.want || old != c.isOld {
				t.Errorf("%s: %v, outdated %v", c.name, got, old)
			}
			m.Close()
		}
	})
}

func TestTheListOfADocumentThatHasChangedIsNotUsed(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "api.json")
	s := config.Source{OpenAPI: &config.OpenAPI{Spec: file}}
	seen := map[string]bool{(&App{}).documentVersion(s): true}
	for _, text := range []string{"{}", "{ }"} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if stamp := (&App{}).documentVersion(s); seen[stamp] {
			t.Errorf("%s has the stamp of another version", text)
		} else {
			seen[stamp] = true
		}
	}
}
