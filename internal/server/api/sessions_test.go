package api_test

import (
	"errors"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/run"
	"github.com/toolroom/toolroom/internal/server/api"
	"github.com/toolroom/toolroom/internal/session"
)

func TestSessionsBelongToTheirCaller(t *testing.T) {
	t.Parallel()
	store, err := session.Open(t.TempDir(), session.Options{})
	if err != nil {
		t.Fatal(err)
	}
	b := newBench(t, func(o *api.Options, _ *run.Options) { o.Sessions = store })
	r, err := store.Begin(t.Context(), "alice", "work")
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Save(t.Context(), "js", "javascript", []byte("state")); err != nil {
		t.Fatal(err)
	}
	if err := r.End(); err != nil {
		t.Fatal(err)
	}
	list := func(who string) string {
		var page struct{ Sessions []session.Info }
		b.as(who, http.MethodGet, "/api/v1/sessions", "").into(t, &page)
		var ids []string
		for _, one := range page.Sessions {
			ids = append(ids, one.ID)
		}
		return strings.Join(ids, " ")
	}
	if alice, bob, olga := list("alice"), list("bob"), list("olga"); alice != "work" || bob != "" || olga != "" {
		t.Errorf("alice sees %q, bob %q, an operator %q", alice, bob, olga)
	}
	for _, c := range []struct{ method, path string }{
		{http.MethodGet, "/work/export"},
		{http.MethodPost, "/work/fork?to=mine"},
		{http.MethodDelete, "/work"},
	} {
		if r := b.as("bob", c.method, "/api/v1/sessions"+c.path, ""); r.status != http.StatusNotFound {
			t.Errorf("bob: %s %s is %d %s", c.method, c.path, r.status, r.body)
		}
	}
	if r := b.as("alice", http.MethodPost, "/api/v1/sessions/work/fork?to=attempt", ""); r.status != http.StatusCreated {
		t.Errorf("fork: %d %s", r.status, r.body)
	}
	file := b.as("alice", http.MethodGet, "/api/v1/sessions/work/export", "")
	if file.status != http.StatusOK || !strings.HasSuffix(file.body, "\nstate") {
		t.Fatalf("export: %d %q", file.status, file.body)
	}
	if r := b.as("bob", http.MethodPost, "/api/v1/sessions?id=hers", file.body); r.status != http.StatusCreated {
		t.Errorf("import: %d %s", r.status, r.body)
	}
	if r := b.as("bob", http.MethodPost, "/api/v1/sessions", "hello"); r.code(t) != toolroom.CodeInvalidArguments {
		t.Errorf("import of a text: %d %s", r.status, r.body)
	}
	if r := b.as("alice", http.MethodDelete, "/api/v1/sessions/work", ""); r.status/100 != 2 {
		t.Errorf("delete: %d %s", r.status, r.body)
	}
	if alice, bob := list("alice"), list("bob"); alice != "attempt" || bob != "hers" {
		t.Errorf("then alice has %q, and bob %q", alice, bob)
	}
}

func TestStubsAreOfWhatTheCallerMayCall(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.add("a:secret", nothing)
	b.add("a:one", nothing)
	b.add("b:two", nothing)
	for path, want := range map[string]struct{ has, lacks string }{
		"/stubs":                           {"one(values", "secret"},
		"/stubs?pattern=b":                 {"two(values", "one("},
		"/stubs?pattern=a:*&pattern=b:t*":  {"one(values", "echo"},
		"/stubs?language=python&pattern=a": {"def one(", "secret"},
	} {
		r := b.get(path)
		if r.status != http.StatusOK || !strings.Contains(r.body, want.has) || strings.Contains(r.body, want.lacks) {
			t.Errorf("%s: %d\n%s", path, r.status, r.body)
		}
	}
	if r := b.get("/stubs?pattern=a:secret"); r.status != http.StatusNotFound {
		t.Errorf("a tool that may not be seen: %d %s", r.status, r.body)
	}
}

func TestADamagedSessionIsDeletedAndNoOther(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	store, err := session.Open(dir, session.Options{})
	if err != nil {
		t.Fatal(err)
	}
	b := newBench(t, func(o *api.Options, _ *run.Options) { o.Sessions = store })
	for _, name := range []string{"work", "workshop"} {
		if _, err := store.Create(t.Context(), "alice", name); err != nil {
			t.Fatal(err)
		}
	}
	files, err := filepath.Glob(filepath.Join(dir, "*", "work.session"))
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	if err := os.WriteFile(files[0], []byte("?"), 0o600); err != nil {
		t.Fatal(err)
	}
	if r := b.as("alice", http.MethodDelete, "/api/v1/sessions/work", ""); r.status != http.StatusNoContent {
		t.Errorf("%d %s", r.status, r.body)
	}
	list, err := store.List("alice")
	if err != nil || len(list) != 1 || list[0].ID != "workshop" {
		t.Errorf("%v %v", list, err)
	}
	if _, err := os.Stat(files[0]); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}
