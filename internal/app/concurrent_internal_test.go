package app

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/catalog"
	"github.com/toolroom/toolroom/internal/config"
	"github.com/toolroom/toolroom/internal/engine/hosted"
	"github.com/toolroom/toolroom/internal/release"
	"github.com/toolroom/toolroom/internal/secret"
	"github.com/toolroom/toolroom/sandbox"
	"github.com/toolroom/toolroom/source"
)

func TestASourceThatIsAddedDuringAReloadStays(t *testing.T) {
	t.Parallel()
	r, err := Open(t.Context(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var open atomic.Int64
	added := make(chan error, 1)
	r.newSource = func(name string, _ config.Source, _ *config.Config) (source.Source, error) {
		began := make(chan struct{})
		go func() {
			close(began)
			added <- r.AddSource("own", &openSource{&open, toolroom.MustParseID("own:it")}, SourceOptions{})
		}()
		<-began
		time.Sleep(20 * time.Millisecond) // it is added now, or waits for the reload
		return &openSource{&open, toolroom.ID{Namespace: name, Name: "it"}}, nil
	}
	c := config.Default()
	c.Sources = map[string]config.Source{"a": {}}
	if err := r.Reload(c); err != nil {
		t.Fatal(err)
	}
	if err := <-added; err != nil {
		t.Fatal(err)
	}
	if result := r.Run(t.Context(), toolroom.Call{Tool: "own:it"}); !result.OK() {
		t.Errorf("the source that was added during a reload: %v", result.Error)
	}
}

func TestASourceThatIsRemovedDuringItsTestIsReported(t *testing.T) {
	t.Parallel()
	r, err := Open(t.Context(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	slow := &slowList{began: make(chan struct{}), end: make(chan struct{})}
	r.newSource = func(string, config.Source, *config.Config) (source.Source, error) { return slow, nil }
	with := config.Default()
	with.Sources = map[string]config.Source{"src": {}}
	if err := r.Reload(with); err != nil {
		t.Fatal(err)
	}
	tested := make(chan SourceTest, 1)
	go func() {
		test, _ := r.TestSource(t.Context(), "src")
		tested <- test
	}()
	<-slow.began
	if err := r.Reload(config.Default()); err != nil {
		t.Fatal(err)
	}
	close(slow.end)
	if test := <-tested; test.Error == "" {
		t.Errorf("the test of a source that was removed: %+v", test)
	}
}

func TestAClosedRoomTakesNoSource(t *testing.T) {
	t.Parallel()
	r, err := Open(t.Context(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	var open atomic.Int64
	if err := r.AddSource("own", &openSource{&open, toolroom.MustParseID("own:it")}, SourceOptions{}); toolroom.CodeOf(err) != toolroom.CodeUnsupported {
		t.Errorf("got %v", err)
	}
}

func TestAClosedRoomAnswersWithErrors(t *testing.T) {
	t.Parallel()
	r, err := Open(t.Context(), Options{Home: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := r.Job(t.Context(), "job_1"); err == nil {
		t.Error("a job was read from a store that is closed")
	}
	r.Doctor(t.Context(), nil)
	if result := r.Run(t.Context(), toolroom.Call{Tool: "system:time"}); result.OK() {
		t.Error("a call ran in a room that is closed")
	}
}

// What the config says of the start counts as it was then, also for what begins later.
func TestAReloadDoesNotDisturbTheStart(t *testing.T) {
	t.Parallel()
	r, err := Open(t.Context(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range 1000 {
			r.eachWarmEngine(t.Context(), func(*hosted.Engine, sandbox.Spec) {})
			_, _ = r.RunnerPath()
		}
	}()
	for range 20 {
		if err := r.Reload(config.Default()); err != nil {
			t.Error(err)
		}
	}
	<-done
}

func TestCloseEndsTheWorkOfEveryStart(t *testing.T) {
	t.Parallel()
	r, err := Open(t.Context(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background()) // not of the test: Close alone ends it
	defer cancel()
	r.Start(ctx)
	r.Start(ctx)
	closed := make(chan error, 1)
	go func() { closed <- r.Close() }()
	select {
	case err := <-closed:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(20 * time.Second):
		t.Error("Close waits for what the first Start has begun")
	}
}

func TestAToolIsNotQuarantinedForASourceThatIsGone(t *testing.T) {
	t.Parallel()
	r, err := Open(t.Context(), Options{Home: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var open atomic.Int64
	r.newSource = func(name string, _ config.Source, _ *config.Config) (source.Source, error) {
		return &openSource{&open, toolroom.ID{Namespace: name, Name: "it"}}, nil
	}
	yes, with, without := true, config.Default(), config.Default()
	with.Sources = map[string]config.Source{"a": {Quarantine: &yes}}
	if err := r.Reload(with); err != nil {
		t.Fatal(err)
	}
	if err := r.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	if result := r.Run(t.Context(), toolroom.Call{Tool: "a:it"}); toolroom.CodeOf(result.Error) != toolroom.CodeDenied {
		t.Fatalf("the tool of the source is not quarantined: %v", result.Error)
	}
	if err := r.Reload(without); err != nil {
		t.Fatal(err)
	}
	if err := Register(r, "a:it", "Do it.", func(context.Context, struct{}) (string, error) { return "done", nil }); err != nil {
		t.Fatal(err)
	}
	if result := r.Run(t.Context(), toolroom.Call{Tool: "a:it"}); !result.OK() {
		t.Errorf("a function of the same id: %v", result.Error)
	}
}

// A source that has changed makes the room read the releases, among them those of others.
func TestAReleaseOfAnotherProcessIsShownThoughASourceChangedSince(t *testing.T) {
	t.Parallel()
	r, err := Open(t.Context(), Options{Home: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	v := putFunction(t, r)
	to := release.Release{Tool: v.Tool, Environment: release.Prod, Version: v.Number}
	if err := r.store.MoveRelease(t.Context(), release.Move{To: to, Demoted: release.StatusDeprecated, Entry: release.Entry{Tool: v.Tool, Environment: release.Prod, Version: v.Number, Time: time.Now().UTC()}}); err != nil {
		t.Fatal(err)
	}
	r.admit(t.Context(), "pets", sourceTrust{definitions: config.DefinitionsAuto}, []toolroom.Tool{{ID: toolroom.MustParseID("pets:list"), InputSchema: v.Spec.InputSchema}})
	r.servedVersions.catchUp(t.Context())
	if all := r.catalog.All(func(e *catalog.Entry) bool { return e.Provider == functionProvider }); len(all) != 1 {
		t.Errorf("the catalog has %d functions, want 1", len(all))
	}
}

func TestAVersionThatNobodyServesIsForgotten(t *testing.T) {
	t.Parallel()
	r, err := Open(t.Context(), Options{Home: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	v := putFunction(t, r)
	if _, err := r.servedVersions.entry(t.Context(), release.Choice{Tool: v.Tool, Version: v.Number}); err != nil { // as a test of a draft does
		t.Fatal(err)
	}
	if err := r.servedVersions.refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := len(r.servedVersions.entries); n != 0 {
		t.Errorf("%d versions are kept", n)
	}
}

// putFunction stores a version of a function.
func putFunction(t *testing.T, r *App) *release.Version {
	t.Helper()
	v := &release.Version{Tool: "fn:a", Status: release.StatusDraft, Created: time.Now().UTC(), Spec: release.Spec{
		Language: "python", Files: map[string]string{"a.py": "def a(): pass"}, File: "a.py", Entry: "a", InputSchema: json.RawMessage(`{"type":"object"}`),
	}}
	var err error
	if v.Digest, err = v.Spec.Digest(); err != nil {
		t.Fatal(err)
	}
	if v, _, err = r.store.PutVersion(t.Context(), v, -1); err != nil {
		t.Fatal(err)
	}
	return v
}

func TestAStoredListHasNoSecret(t *testing.T) {
	t.Parallel()
	r, err := Open(t.Context(), Options{Home: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	const value = "sk-a-value-that-nobody-may-read"
	if err := r.secrets.Set(t.Context(), secret.Ref{Scope: "a", Name: "key"}, value); err != nil {
		t.Fatal(err)
	}
	r.newSource = func(string, config.Source, *config.Config) (source.Source, error) {
		return &telling{text: "Use it with " + value + "."}, nil
	}
	c := config.Default()
	c.Sources = map[string]config.Source{"a": {}}
	if err := r.Reload(c); err != nil {
		t.Fatal(err)
	}
	if err := r.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(r.home, "lists", "a.json"))
	if err != nil || !strings.Contains(string(text), "Use it with") || strings.Contains(string(text), value) {
		t.Errorf("the stored list: %s, %v", text, err)
	}
}

// telling is a source whose tool has a description.
type telling struct {
	openSource
	text string
}

func (s *telling) Tools(context.Context) ([]toolroom.Tool, error) {
	return []toolroom.Tool{{ID: toolroom.MustParseID("a:it"), Description: s.text}}, nil
}

func (s *telling) Close() error { return nil }

func TestDoctorNamesThePacksInTheSameOrderEachTime(t *testing.T) {
	t.Parallel()
	r, err := Open(t.Context(), Options{Home: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	c := config.Default()
	c.Builtin.K8s, c.Builtin.Media, c.Builtin.Google = &config.BuiltinK8s{}, &config.BuiltinMedia{}, &config.BuiltinGoogle{}
	var first []string
	for range 20 {
		var p packs
		if err := r.buildPacks(&p, c); err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, pack := range p.list {
			names = append(names, pack.Name)
		}
		if first == nil {
			first = names
		}
		if !slices.Equal(names, first) {
			t.Fatalf("%v, and before %v", names, first)
		}
	}
}
