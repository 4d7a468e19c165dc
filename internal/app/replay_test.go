package app_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/app"
	"github.com/toolroom/toolroom/internal/engine/install"
)

// homeWithMonty is a home folder in which the engine py-lite is installed.
func homeWithMonty(t *testing.T) string {
	t.Helper()
	worker := os.Getenv("TOOLROOM_MONTY")
	if worker == "" {
		if os.Getenv("CI") == "true" {
			t.Fatal("TOOLROOM_MONTY is not set: it is the path of Monty's worker, as toolroom setup engines installs it")
		}
		t.Skip("TOOLROOM_MONTY is not set")
	}
	home := t.TempDir()
	if err := os.MkdirAll(install.Folder(home), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(worker, filepath.Join(install.Folder(home), "monty")); err != nil {
		t.Fatal(err)
	}
	return home
}

// Monty has no json.JSONEncoder, and finds out when the tool has been called.
const refusedLate = "n = tools.count.up(by=2)\nimport json\n[n, json.JSONEncoder().encode(n)]"

func TestAProgramThatIsRefusedLateGoesOnElsewhereWithoutRepeatingACall(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	r := open(t, app.Options{Home: homeWithMonty(t), Helper: self})
	var count atomic.Int64
	type step struct {
		By int64 `json:"by"`
	}
	if err := app.Register(r, "count:up", "Counts.", func(_ context.Context, in step) (int64, error) { return count.Add(in.By), nil }); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, session string
		engines       []string
	}{
		{"of its own", "", []string{"py-native", "py", "process"}}, // py-native is not on every machine
		{"in a session", "work", []string{"py"}},                   // the next that keeps one
	} {
		before := count.Load()
		result, err := r.Execute(t.Context(), toolroom.Call{}, toolroom.Program{Language: "python", Code: refusedLate, Session: c.session})
		if err != nil || !result.OK() {
			t.Fatalf("%s: %v, %+v", c.name, err, result)
		}
		if got := count.Load() - before; got != 2 {
			t.Errorf("%s: it was counted up by %d, not once by 2", c.name, got)
		}
		x := result.Execution
		if len(x.Calls) != 1 {
			t.Errorf("%s: the result tells of %d calls: %+v", c.name, len(x.Calls), x.Calls)
		}
		known := false
		for _, name := range c.engines {
			known = known || x.Engine == name && strings.Contains(x.Why, name+" is the next engine for python")
		}
		if !known || !strings.Contains(x.Why, "py-lite cannot run it") || !strings.Contains(x.Why, "JSONEncoder") {
			t.Errorf("%s: it ran on %s, because %s", c.name, x.Engine, x.Why)
		}
	}
}

func TestPythonIsCheckedWithTheTypesOfTheToolsBeforeAnyIsCalled(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	r := open(t, app.Options{Home: homeWithMonty(t), Helper: self})
	var calls atomic.Int64
	type step struct {
		By   int64    `json:"by"`
		Tags []string `json:"tags,omitempty"`
	}
	if err := app.Register(r, "count:up", "Counts.", func(context.Context, step) (int64, error) { return calls.Add(1), nil }); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ code, says string }{
		{"n = '2'\ntools.count.up(by=1)\ntools.count.up(by=n)", "count:up takes int here"},
		{"tools.count.up(by=1, tags={'a': 1})", "count:up takes list[str]"},
		{"r = tools.count.up(by=1)\nasync def f(): return r[0]\nawait f()", "without await"},
	} {
		for _, before := range []string{"", "x = 1"} {
			p := toolroom.Program{Language: "python", Code: c.code}
			if before != "" {
				p.Session = "work"
				if result, err := r.Execute(t.Context(), toolroom.Call{}, toolroom.Program{Language: "python", Code: before, Session: p.Session}); err != nil || !result.OK() {
					t.Fatalf("%v %+v", err, result)
				}
			}
			result, err := r.Execute(t.Context(), toolroom.Call{}, p)
			if err != nil || result.Error == nil || !strings.Contains(result.Error.Message, c.says) {
				t.Errorf("%s\nafter %q: %v, %v", c.code, before, err, result.Error)
			}
		}
	}
	if n := calls.Load(); n != 0 {
		t.Errorf("the tool was called %d times", n)
	}
}
