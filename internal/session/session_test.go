package session_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/session"
)

// clock is a time that tests move.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

func newClock() *clock { return &clock{now: time.Date(2026, 11, 21, 8, 0, 0, 0, time.UTC)} }

func open(t *testing.T, dir string, o session.Options) *session.Store {
	t.Helper()
	s, err := session.Open(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func begin(t *testing.T, s *session.Store, owner, id string) *session.Run {
	t.Helper()
	r, err := s.Begin(t.Context(), owner, id)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// keep lets a run leave a state behind.
func keep(t *testing.T, s *session.Store, owner, id, state string) error {
	t.Helper()
	r := begin(t, s, owner, id)
	err := r.Save(t.Context(), "js", "javascript", []byte(state))
	return errors.Join(err, r.End())
}

func state(t *testing.T, s *session.Store, owner, id string) string {
	t.Helper()
	r := begin(t, s, owner, id)
	defer r.End()
	return string(r.State)
}

func ids(t *testing.T, s *session.Store, owner string) string {
	t.Helper()
	list, err := s.List(owner)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, one := range list {
		names = append(names, one.ID)
	}
	return strings.Join(names, " ")
}

func wantCode(t *testing.T, err error, want toolroom.Code) {
	t.Helper()
	if got := toolroom.CodeOf(err); err == nil || got != want {
		t.Errorf("got %v, want an error %s", err, want)
	}
}

func TestAStateIsThereForTheNextRunAlsoOfAnotherProcess(t *testing.T) {
	t.Parallel()
	dir, c := t.TempDir(), newClock()
	s := open(t, dir, session.Options{Now: c.Now})
	for _, text := range []string{"one", "two"} {
		if err := keep(t, s, "ann", "work", text); err != nil {
			t.Fatal(err)
		}
		c.advance(time.Hour)
	}
	other := open(t, dir, session.Options{Now: c.Now})
	if got := state(t, other, "ann", "work"); got != "two" {
		t.Errorf("got %q", got)
	}
	list, err := other.List("ann")
	if err != nil {
		t.Fatal(err)
	}
	begun := newClock().Now()
	want := []session.Info{{
		ID: "work", Language: "javascript", Engine: "js", Bytes: 3, Runs: 2,
		Created: begun, Used: begun.Add(time.Hour), Expires: begun.Add(25 * time.Hour),
	}}
	if diff := cmp.Diff(want, list); diff != "" {
		t.Error(diff)
	}
}

func TestARunThatKeepsNothingLeavesTheStateAsItWas(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := open(t, dir, session.Options{})
	r := begin(t, s, "ann", "new")
	if err := r.End(); err != nil {
		t.Fatal(err)
	}
	if got := ids(t, s, "ann"); got != "" {
		t.Errorf("there is %s", got)
	}
	if files, err := filepath.Glob(filepath.Join(dir, "*", "*")); err != nil || len(files) > 0 && runtime.GOOS != "windows" { // which removes no open file
		t.Errorf("left behind: %v, %v", files, err)
	}
}

func TestTheSessionOfAnotherIsNotFound(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir(), session.Options{})
	if err := keep(t, s, "ann", "work", "hers"); err != nil {
		t.Fatal(err)
	}
	if got := state(t, s, "bob", "work"); got != "" {
		t.Errorf("bob's run begins from %q", got)
	}
	_, err := s.Fork(t.Context(), "bob", "work", "mine")
	wantCode(t, err, toolroom.CodeNotFound)
	wantCode(t, s.Export("bob", "work", &bytes.Buffer{}), toolroom.CodeNotFound)
	wantCode(t, s.Delete(t.Context(), "bob", "work"), toolroom.CodeNotFound)
	if got := ids(t, s, "bob"); got != "" {
		t.Errorf("bob sees %s", got)
	}
	if got := state(t, s, "ann", "work"); got != "hers" {
		t.Errorf("ann's is %q", got)
	}
}

func TestNamesThatLeadElsewhereAreRefused(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir(), session.Options{})
	for _, id := range []string{"", ".", "..", "../x", "a/b", `a\b`, "a b", ".hidden", "a\x00b", strings.Repeat("a", 65), "ü"} {
		_, err := s.Begin(t.Context(), "ann", id)
		wantCode(t, err, toolroom.CodeInvalidArguments)
		wantCode(t, s.Export("ann", id, &bytes.Buffer{}), toolroom.CodeInvalidArguments)
		wantCode(t, s.Delete(t.Context(), "ann", id), toolroom.CodeInvalidArguments)
	}
}

func TestOverlappingRunsComeOneAfterTheOther(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var running sync.WaitGroup
	for range 8 { // each as another process would
		s := open(t, dir, session.Options{})
		running.Go(func() {
			r, err := s.Begin(t.Context(), "ann", "work")
			if err != nil {
				t.Error(err)
				return
			}
			if err := r.Save(t.Context(), "js", "javascript", append(r.State, 'x')); err != nil {
				t.Error(err)
			}
			if err := r.End(); err != nil {
				t.Error(err)
			}
		})
	}
	running.Wait()
	if got := state(t, open(t, dir, session.Options{}), "ann", "work"); got != "xxxxxxxx" {
		t.Errorf("a run went on from a state that was not the last: %q", got)
	}
}

func TestWaitingForASessionEndsWithTheContext(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir(), session.Options{})
	r := begin(t, s, "ann", "work")
	defer r.End()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := s.Begin(ctx, "ann", "work")
	wantCode(t, err, toolroom.CodeCancelled)
	if other := begin(t, s, "ann", "other"); other.End() != nil {
		t.Error("another session waits for this one")
	}
}

func TestIdleSessionsAreForgotten(t *testing.T) {
	t.Parallel()
	dir, c := t.TempDir(), newClock()
	s := open(t, dir, session.Options{Now: c.Now})
	for _, id := range []string{"old", "used"} {
		if err := keep(t, s, "ann", id, id); err != nil {
			t.Fatal(err)
		}
	}
	c.advance(20 * time.Hour)
	if err := keep(t, s, "ann", "used", "again"); err != nil {
		t.Fatal(err)
	}
	c.advance(5 * time.Hour)
	if got := ids(t, s, "ann"); got != "used" {
		t.Errorf("there are %q", got)
	}
	wantCode(t, s.Export("ann", "old", &bytes.Buffer{}), toolroom.CodeNotFound)
	if got := state(t, s, "ann", "old"); got != "" {
		t.Errorf("a run begins from what was forgotten: %q", got)
	}
	if err := s.Sweep(); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(dir, "*", "old*"))
	if err != nil || len(files) != 0 {
		t.Errorf("left behind: %v, %v", files, err)
	}
}

func TestFullIsAnErrorAndNothingIsGivenUp(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir(), session.Options{Limits: session.Limits{Sessions: 2, Bytes: 100, Total: 150, Each: 90}})
	for _, id := range []string{"a", "b"} {
		if err := keep(t, s, "ann", id, strings.Repeat(id, 40)); err != nil {
			t.Fatal(err)
		}
	}
	for name, err := range map[string]error{
		"one more session":        keep(t, s, "ann", "c", "c"),
		"more bytes of one owner": keep(t, s, "ann", "a", strings.Repeat("x", 61)),
		"more bytes of all":       keep(t, s, "bob", "a", strings.Repeat("x", 71)),
	} {
		wantCode(t, err, toolroom.CodeResourceLimit)
		if hint := toolroom.AsError(err).Hints(); !strings.Contains(hint, "session delete") {
			t.Errorf("%s: the hint does not say how to free space: %q", name, hint)
		}
	}
	tooLarge := keep(t, s, "ann", "a", strings.Repeat("x", 91))
	wantCode(t, tooLarge, toolroom.CodeResourceLimit)
	if e := toolroom.AsError(tooLarge); !strings.Contains(e.Message, "may take 90 bytes") || !strings.Contains(e.Hints(), "code.sessions.entry_bytes") {
		t.Errorf("one session that is too large: %s (%s)", e.Message, e.Hints())
	}
	if got := state(t, s, "ann", "a"); got != strings.Repeat("a", 40) {
		t.Errorf("what was there is now %q", got)
	}
	if err := s.Delete(t.Context(), "ann", "b"); err != nil {
		t.Fatal(err)
	}
	if err := keep(t, s, "ann", "a", strings.Repeat("x", 61)); err != nil {
		t.Errorf("after a delete: %v", err)
	}
}

func TestAForkIsApart(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir(), session.Options{})
	if err := keep(t, s, "ann", "work", "begun"); err != nil {
		t.Fatal(err)
	}
	info, err := s.Fork(t.Context(), "ann", "work", "try")
	if err != nil || info.ID != "try" || info.Engine != "js" || info.Runs != 1 {
		t.Fatalf("%+v, %v", info, err)
	}
	if err := keep(t, s, "ann", "try", "went on"); err != nil {
		t.Fatal(err)
	}
	if got := state(t, s, "ann", "work"); got != "begun" {
		t.Errorf("the session it came from is %q", got)
	}
	_, err = s.Fork(t.Context(), "ann", "work", "try")
	wantCode(t, err, toolroom.CodeConflict)
	_, err = s.Fork(t.Context(), "ann", "work", "work")
	wantCode(t, err, toolroom.CodeConflict)
}

func TestAnExportIsImportedElsewhere(t *testing.T) {
	t.Parallel()
	from, to := open(t, t.TempDir(), session.Options{}), open(t, t.TempDir(), session.Options{})
	if err := keep(t, from, "ann", "work", "\x00state\n"); err != nil {
		t.Fatal(err)
	}
	var file bytes.Buffer
	if err := from.Export("ann", "work", &file); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"", "again"} {
		info, err := to.Import(t.Context(), "bob", id, bytes.NewReader(file.Bytes()))
		if err != nil || info.Engine != "js" || info.Language != "javascript" {
			t.Fatalf("%+v, %v", info, err)
		}
	}
	if got := ids(t, to, "bob"); got != "again work" {
		t.Errorf("there are %q", got)
	}
	if got := state(t, to, "bob", "again"); got != "\x00state\n" {
		t.Errorf("got %q", got)
	}
	for name, bad := range map[string]string{
		"nothing": "", "text": "hello\n", "no line": strings.Repeat("x", 10_000), "cut": file.String()[:file.Len()-1],
		"longer": file.String() + "x", "another format": `{"format":"toolroom-session-9"}` + "\n",
		"a name that is a path": strings.Replace(file.String(), `"work"`, `"../x"`, 1),
	} {
		if _, err := to.Import(t.Context(), "bob", "", strings.NewReader(bad)); toolroom.CodeOf(err) != toolroom.CodeInvalidArguments {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAFileThatCannotBeReadHidesNoOthers(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := open(t, dir, session.Options{})
	if err := keep(t, s, "ann", "work", "state"); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(dir, "*", "work.session"))
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	if err := os.WriteFile(filepath.Join(filepath.Dir(files[0]), "bad.session"), []byte("rubbish"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := ids(t, open(t, dir, session.Options{}), "ann"); got != "work" {
		t.Errorf("there are %q", got)
	}
}
