package release_test

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/release"
	"github.com/toolroom/toolroom/internal/store/sqlite"
)

// newService returns a service on a store in a file. Every upload is one tool fn:NAME, whose
// name is that of the file.
func newService(t *testing.T, folder string) *release.Service {
	t.Helper()
	s, err := sqlite.Open(context.Background(), filepath.Join(folder, "test.db"), sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return release.New(release.Options{
		Store: s,
		Inspect: func(_ context.Context, u release.Upload) ([]release.Found, error) {
			spec := release.Spec{Language: "python", Files: u.Files, File: u.File, Entry: "f", InputSchema: json.RawMessage(`{"type":"object"}`)}
			return []release.Found{{ID: toolroom.ID{Namespace: "fn", Name: u.File}, Spec: spec}}, nil
		},
		Check:   func(toolroom.ID) error { return nil },
		Run:     func(context.Context, toolroom.Call) *toolroom.Result { return &toolroom.Result{} },
		Past:    func(context.Context, string, time.Time) (map[string][]json.RawMessage, error) { return nil, nil },
		Changed: func(context.Context) error { return nil },
		Rules: func() release.Rules {
			return release.Rules{Demoted: release.StatusDeprecated, Cases: true, Compatible: true}
		},
	})
}

// model is what the service must do, in memory.
type model struct {
	tool      string
	texts     []string         // of the versions
	served    map[string][]int // versions that an environment has served, oldest first
	withdrawn map[int]bool
}

func (m *model) current(environment string) int {
	if list := m.served[environment]; len(list) > 0 {
		return list[len(list)-1]
	}
	return 0
}

func TestVersionsAndReleasesBehaveLikeTheModel(t *testing.T) {
	t.Parallel()
	s, run := newService(t, t.TempDir()), 0
	rapid.Check(t, func(t *rapid.T) {
		run++
		ctx := context.Background()
		m := &model{tool: fmt.Sprintf("a%d", run), served: map[string][]int{}, withdrawn: map[int]bool{}}
		tool := "fn:" + m.tool
		environment := rapid.SampledFrom([]string{release.Prod, release.Test})
		t.Repeat(map[string]func(*rapid.T){
			"push": func(t *rapid.T) {
				text := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "text")
				pushed, err := s.Push(ctx, release.Upload{Files: map[string]string{m.tool: text}, File: m.tool, Base: -1}, "ada")
				if err != nil {
					t.Fatal(err)
				}
				same := len(m.texts) > 0 && m.texts[len(m.texts)-1] == text
				if !same {
					m.texts = append(m.texts, text)
				}
				if pushed[0].Created == same || pushed[0].Number != len(m.texts) {
					t.Fatalf("created %v, number %d, want %d", pushed[0].Created, pushed[0].Number, len(m.texts))
				}
			},
			"release": func(t *rapid.T) {
				number, in := rapid.IntRange(1, 5).Draw(t, "number"), environment.Draw(t, "environment")
				_, err := s.Release(ctx, release.Order{Tool: tool, Version: number, Environment: in}, "ada")
				switch {
				case number > len(m.texts):
					if toolroom.CodeOf(err) != toolroom.CodeNotFound {
						t.Fatalf("release of version %d of %d: %v", number, len(m.texts), err)
					}
				case m.withdrawn[number]:
					if toolroom.CodeOf(err) != toolroom.CodeConflict {
						t.Fatalf("release of a deprecated version: %v", err)
					}
				case err != nil:
					t.Fatal(err)
				case m.current(in) != number:
					m.served[in] = append(m.served[in], number)
				}
			},
			"roll back": func(t *rapid.T) {
				in := environment.Draw(t, "environment")
				_, err := s.Rollback(ctx, tool, in, 0, "", "ada")
				if m.current(in) == 0 {
					if toolroom.CodeOf(err) != toolroom.CodeConflict {
						t.Fatalf("a rollback of nothing: %v", err)
					}
					return
				}
				list := m.served[in][:len(m.served[in])-1]
				if len(list) > 0 && m.withdrawn[list[len(list)-1]] {
					if toolroom.CodeOf(err) != toolroom.CodeConflict {
						t.Fatalf("a rollback to a deprecated version: %v", err)
					}
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				m.served[in] = list
			},
			"deprecate": func(t *rapid.T) {
				number := rapid.IntRange(1, 5).Draw(t, "number")
				err := s.Deprecate(ctx, tool, number, "wrong", false, "ada")
				switch {
				case number > len(m.texts):
					if toolroom.CodeOf(err) != toolroom.CodeNotFound {
						t.Fatalf("version %d: %v", number, err)
					}
				case m.current(release.Prod) == number, m.current(release.Test) == number:
					if toolroom.CodeOf(err) != toolroom.CodeConflict {
						t.Fatalf("deprecating what is served: %v", err)
					}
				case err != nil:
					t.Fatal(err)
				default:
					m.withdrawn[number] = true
				}
			},
			"restore": func(t *rapid.T) {
				for number := range m.withdrawn {
					if err := s.Deprecate(ctx, tool, number, "", true, "ada"); err != nil {
						t.Fatal(err)
					}
				}
				m.withdrawn = map[int]bool{}
			},
			"": func(t *rapid.T) { m.check(ctx, t, s) },
		})
	})
}

// check compares the store and its table with the model.
func (m *model) check(ctx context.Context, t *rapid.T, s *release.Service) {
	d, err := s.Show(ctx, "fn:"+m.tool)
	if err != nil {
		t.Fatal(err)
	}
	if len(d.Versions) != len(m.texts) {
		t.Fatalf("%d versions, want %d", len(d.Versions), len(m.texts))
	}
	got := map[string]int{}
	for _, r := range d.Releases {
		got[r.Environment] = r.Version
	}
	table, err := release.Load(ctx, s.Store)
	if err != nil {
		t.Fatal(err)
	}
	for _, in := range []string{release.Prod, release.Test} {
		want := m.current(in)
		if got[in] != want {
			t.Fatalf("%s serves %d, want %d", in, got[in], want)
		}
		c, known, err := table.Choose("fn:"+m.tool, in, toolroom.Identity{})
		switch {
		case len(m.texts) == 0:
			if known {
				t.Fatal("a tool without versions is known")
			}
		case want == 0:
			if toolroom.CodeOf(err) != toolroom.CodeToolNotFound {
				t.Fatalf("a call to %s, which serves nothing, gets %+v, %v", in, c, err)
			}
		case c.Version != want || err != nil:
			t.Fatalf("a call to %s gets version %d, want %d: %v", in, c.Version, want, err)
		}
	}
	for _, v := range d.Versions {
		if v.Spec.Files[m.tool] != m.texts[v.Number-1] {
			t.Fatalf("version %d is %q, want %q", v.Number, v.Spec.Files[m.tool], m.texts[v.Number-1])
		}
		if active := v.Status == release.StatusActive; active != (v.Number == m.current(release.Prod)) {
			t.Fatalf("version %d is %s, and prod serves %d", v.Number, v.Status, m.current(release.Prod))
		}
	}
}

func TestWhatBreaksCallersIsNamed(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		before, after string
		output        bool
		want          []string
	}{
		"nothing":                 {`{"type":"object","properties":{"a":{"type":"integer"}}}`, `{"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"string"}}}`, false, nil},
		"an argument is required": {`{"properties":{"a":{}}}`, `{"properties":{"a":{}},"required":["a"]}`, false, []string{"argument a is now required"}},
		"an argument is removed":  {`{"properties":{"a":{}}}`, `{"properties":{},"additionalProperties":false}`, false, []string{"argument a was removed"}},
		"a type is narrower":      {`{"properties":{"a":{"type":["string","null"]}}}`, `{"properties":{"a":{"type":"string"}}}`, false, []string{"argument a is now string, and was string or null"}},
		"a type is wider":         {`{"properties":{"a":{"type":"integer"}}}`, `{"properties":{"a":{"type":"number"}}}`, false, nil},
		"a choice is gone":        {`{"properties":{"a":{"enum":["x","y"]}}}`, `{"properties":{"a":{"enum":["x"]}}}`, false, []string{"argument a no longer allows y"}},
		"a member of an item":     {`{"properties":{"a":{"items":{"type":"string"}}}}`, `{"properties":{"a":{"items":{"type":"integer"}}}}`, false, []string{"argument a [] is now integer, and was string"}},
		"a member of the value":   {`{"properties":{"a":{}},"required":["a"]}`, `{"properties":{}}`, true, []string{"value a was removed"}},
		"a value may be missing":  {`{"properties":{"a":{}},"required":["a"]}`, `{"properties":{"a":{}}}`, true, []string{"value a may now be missing"}},
		"a value is wider":        {`{"type":"integer"}`, `{"type":["integer","null"]}`, true, []string{"value is now integer or null, and was integer"}},
		"a value is unlimited":    {`{"enum":[1]}`, `{}`, true, []string{"value is no longer limited to some values"}},
		"a value is new":          {`{"enum":[[1]]}`, `{"enum":[[1],{"a":1}]}`, true, []string{`value may now be {"a":1}`}},
		"a choice is no scalar":   {`{"enum":[[1],{"a":1}]}`, `{"enum":[{"a":1}]}`, false, []string{"argument no longer allows [1]"}},
	} {
		before, after := release.Spec{InputSchema: json.RawMessage(c.before)}, release.Spec{InputSchema: json.RawMessage(c.after)}
		if c.output {
			before, after = release.Spec{OutputSchema: json.RawMessage(c.before)}, release.Spec{OutputSchema: json.RawMessage(c.after)}
		}
		if got := release.Breaks(&before, &after); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

func TestAVersionIsComparedOnceAtEachLook(t *testing.T) {
	t.Parallel()
	s := newService(t, t.TempDir())
	calls, compared := 0, 0
	s.Observe = func(_ context.Context, _, _ string, version int, _ time.Time, base bool) ([]release.Observation, error) {
		if base {
			compared++
			return make([]release.Observation, 10), nil
		}
		return make([]release.Observation, calls), nil
	}
	judged := 0
	for calls = range 13 {
		v, seen, err := s.Watch(t.Context(), release.Entry{Tool: "fn:a", Environment: release.Prod, Version: 2, Previous: 1}, judged)
		if v != nil || err != nil || seen != calls {
			t.Fatalf("at %d calls: %+v, %d, %v", calls, v, seen, err)
		}
		judged = seen
	}
	if compared != 3 {
		t.Errorf("it was compared %d times, not at 3, 6 and 12 calls", compared)
	}
	for calls, want := range map[int]int{0: 3, 2: 3, 3: 6, 5: 6, 6: 12, 11: 12} {
		if got := release.NextLook(calls); got != want {
			t.Errorf("after %d calls the next look is at %d, want %d", calls, got, want)
		}
	}
}

func TestReleasesOfManyToolsAreServedTogether(t *testing.T) {
	t.Parallel()
	s := newService(t, t.TempDir())
	served := 0
	s.Changed = func(context.Context) error { served++; return nil }
	var orders []release.Order
	for _, name := range []string{"a", "b", "c"} {
		if _, err := s.Push(t.Context(), release.Upload{Files: map[string]string{name: name}, File: name, Base: -1}, "ada"); err != nil {
			t.Fatal(err)
		}
		orders = append(orders, release.Order{Tool: "fn:" + name})
	}
	served, orders = 0, append(orders[:2:2], release.Order{Tool: "fn:none"}, orders[2])
	done, err := s.ReleaseAll(t.Context(), orders, "ada")
	if toolroom.CodeOf(err) != toolroom.CodeNotFound || len(done) != 2 || done[1].Tool != "fn:b" {
		t.Errorf("%+v are released before the one that fails with %v", done, err)
	}
	if served != 1 {
		t.Errorf("they are served in %d steps", served)
	}
}
