package app

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/catalog"
	"github.com/toolroom/toolroom/internal/config"
	"github.com/toolroom/toolroom/source"
)

// openSource counts how many of its kind are open.
type openSource struct {
	open *atomic.Int64
	id   toolroom.ID
}

func (s *openSource) Tools(context.Context) ([]toolroom.Tool, error) {
	return []toolroom.Tool{{ID: s.id}}, nil
}

func (s *openSource) Call(context.Context, *source.Request) (*source.Output, error) {
	return &source.Output{Content: []toolroom.Content{toolroom.TextContent("ok")}}, nil
}

func (s *openSource) Close() error {
	s.open.Add(-1)
	return nil
}

func TestAReloadThatFailsHalfWayClosesWhatItOpened(t *testing.T) {
	t.Parallel()
	r, err := Open(t.Context(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var opened, open atomic.Int64
	broken := "d"
	r.newSource = func(name string, _ config.Source, _ *config.Config) (source.Source, error) {
		if name == broken {
			return nil, toolroom.Errorf(toolroom.CodeInternal, "no")
		}
		opened.Add(1)
		open.Add(1)
		return &openSource{&open, toolroom.ID{Namespace: name, Name: "it"}}, nil
	}
	with := func(description string, names ...string) *config.Config {
		c := config.Default()
		c.Sources = map[string]config.Source{}
		for _, name := range names {
			c.Sources[name] = config.Source{Description: description}
		}
		return c
	}
	check := func(what string, wantOpened, wantOpen int64) {
		t.Helper()
		r.background.Wait() // for sources that are being removed
		if opened.Load() != wantOpened || open.Load() != wantOpen {
			t.Errorf("%s: %d sources were opened and %d are open, want %d and %d", what, opened.Load(), open.Load(), wantOpened, wantOpen)
		}
		if err := r.Load(t.Context()); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		if result := r.Run(t.Context(), toolroom.Call{Tool: "a:it"}); !result.OK() {
			t.Errorf("%s: the source that was there before does not work: %v", what, result.Error)
		}
	}
	if err := r.Reload(with("", "a")); err != nil {
		t.Fatal(err)
	}
	check("the first config", 1, 1)
	// b and c are new and come before the one that fails; a stays, or is replaced.
	for _, c := range []struct {
		what   string
		config *config.Config
		opened int64
	}{
		{"a source cannot be built", with("", "a", "b", "c", "d"), 3},
		{"and another has changed", with("changed", "a", "b", "c", "d", "e"), 6},
		{"a name is reserved", with("", "a", "b", "tools"), 7},
		{"the built-in tools cannot be made", unsearchable(with("changed", "a", "b")), 9},
	} {
		if err := r.Reload(c.config); err == nil {
			t.Fatalf("%s: the config was applied", c.what)
		}
		check(c.what, c.opened, 1)
		if len(r.Sources()) != 1 {
			t.Errorf("%s: got sources %v", c.what, r.Sources())
		}
	}
	broken = ""
	if err := r.Reload(with("", "a", "b", "c", "d")); err != nil {
		t.Fatal(err)
	}
	check("a config that works", 12, 4)
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if open.Load() != 0 {
		t.Errorf("%d sources are open after Close", open.Load())
	}
}

// unsearchable returns a config whose web search has no address.
func unsearchable(c *config.Config) *config.Config {
	c.Builtin.Web = &config.BuiltinWeb{Search: &config.BuiltinSearch{Provider: "searxng", URL: "http://["}}
	return c
}

// A source brings rules of its own, which must be in force before its tools are in the catalog.
func TestToolsOfANewSourceComeAfterTheirPolicy(t *testing.T) {
	t.Parallel()
	r, err := Open(t.Context(), Options{Home: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var open atomic.Int64
	here := func() int {
		return len(r.catalog.All(func(e *catalog.Entry) bool { return e.Tool.ID.Namespace == "a" || e.Tool.ID.Namespace == "b" }))
	}
	r.newSource = func(name string, _ config.Source, _ *config.Config) (source.Source, error) {
		if n := here(); n != 0 {
			t.Errorf("%d tools are there while the source %s is built, under the old policy", n, name)
		}
		open.Add(1)
		return &openSource{&open, toolroom.ID{Namespace: name, Name: "it"}}, nil
	}
	with := func(names ...string) *config.Config {
		c := config.Default()
		c.Sources = map[string]config.Source{}
		for _, name := range names {
			c.Sources[name] = config.Source{}
		}
		return c
	}
	for range 2 { // the second time their lists of the first are known at once
		if err := r.Reload(with("a", "b")); err != nil {
			t.Fatal(err)
		}
		if err := r.Load(t.Context()); err != nil {
			t.Fatal(err)
		}
		if n := here(); n != 2 {
			t.Fatalf("%d tools", n)
		}
		if err := r.Reload(with()); err != nil {
			t.Fatal(err)
		}
		r.background.Wait()
	}
}
