package sqlite

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	driver "modernc.org/sqlite"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/release"
)

// Variables of the child of the test below: the folder in which it works, and the number of
// the write before which it ends.
const (
	killHome  = "TOOLROOM_TEST_KILL_HOME"
	killWrite = "TOOLROOM_TEST_KILL_WRITE"
)

// TestAKillBetweenAnyTwoWritesLeavesNoHalfRelease lets a process push, release, promote and
// roll back, which ends by SIGKILL before its n-th write of a row or commit, for every n,
// and checks what it leaves.
func TestAKillBetweenAnyTwoWritesLeavesNoHalfRelease(t *testing.T) {
	if home := os.Getenv(killHome); home != "" {
		n, err := strconv.ParseInt(os.Getenv(killWrite), 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		workUntilWrite(t, home, n)
		return
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for n := 1; ; n++ {
		home := t.TempDir()
		releaseService(t, home) // the migrations do not count
		child := exec.CommandContext(t.Context(), self, "-test.run=^TestAKillBetweenAnyTwoWritesLeavesNoHalfRelease$")
		child.Env = append(os.Environ(), killHome+"="+home, killWrite+"="+strconv.Itoa(n))
		out, err := child.CombinedOutput()
		var exit *exec.ExitError
		if err != nil && (!errors.As(err, &exit) || exit.ExitCode() != -1) {
			t.Fatalf("write %d: %v\n%s", n, err, out)
		}
		wholeRelease(t, home, n)
		if err == nil {
			if n < 20 {
				t.Errorf("all is done with %d writes", n)
			}
			return
		}
	}
}

func workUntilWrite(t *testing.T, home string, last int64) {
	var writes atomic.Int64
	count := func() {
		if writes.Add(1) == last {
			self, _ := os.FindProcess(os.Getpid()) // never fails
			_ = self.Kill()
			select {}
		}
	}
	var counting atomic.Bool
	driver.RegisterConnectionHook(func(c driver.ExecQuerierContext, _ string) error {
		hooks := c.(driver.HookRegisterer)
		hooks.RegisterPreUpdateHook(func(driver.SQLitePreUpdateData) {
			if counting.Load() {
				count()
			}
		})
		hooks.RegisterCommitHook(func() int32 {
			if counting.Load() {
				count()
			}
			return 0
		})
		return nil
	})
	s, ctx := releaseService(t, home), context.Background()
	counting.Store(true)
	push := func(text string) {
		if _, err := s.Push(ctx, release.Upload{Files: map[string]string{"k": text}, File: "k", Base: -1}, "ada"); err != nil {
			t.Fatal(err)
		}
	}
	moved := func(_ release.Moved, err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	push("1")
	moved(s.Release(ctx, release.Order{Tool: "fn:k"}, "ada"))
	push("2")
	moved(s.Release(ctx, release.Order{Tool: "fn:k", Environment: release.Test}, "ada"))
	moved(s.Promote(ctx, "fn:k", 0, release.Test, release.Prod, false, "ada"))
	moved(s.Rollback(ctx, "fn:k", release.Prod, 0, "wrong", "ada"))
}

func releaseService(t *testing.T, home string) *release.Service {
	t.Helper()
	store, err := Open(context.Background(), filepath.Join(home, "test.db"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	return release.New(release.Options{
		Store: store,
		Inspect: func(_ context.Context, u release.Upload) ([]release.Found, error) {
			spec := release.Spec{Language: "python", Files: u.Files, File: u.File, Entry: "f", InputSchema: json.RawMessage(`{"type":"object"}`)}
			return []release.Found{{ID: toolroom.ID{Namespace: "fn", Name: u.File}, Spec: spec}}, nil
		},
		Check:   func(toolroom.ID) error { return nil },
		Run:     func(context.Context, toolroom.Call) *toolroom.Result { return &toolroom.Result{} },
		Past:    func(context.Context, string, time.Time) (map[string][]json.RawMessage, error) { return nil, nil },
		Changed: func(context.Context) error { return nil },
		Rules:   func() release.Rules { return release.Rules{Demoted: release.StatusDeprecated} },
	})
}

// wholeRelease checks that versions, releases and log agree, and that every environment
// serves a version that is there.
func wholeRelease(t *testing.T, home string, n int) {
	t.Helper()
	s := releaseService(t, home)
	log, err := s.Store.ReleaseLog(t.Context(), "fn:k", -1)
	if err != nil {
		t.Fatal(err)
	}
	pushes, served := 0, map[string]int{}
	for i := len(log) - 1; i >= 0; i-- { // newest first
		if e := log[i]; e.Action == release.ActionPush {
			pushes++
		} else {
			served[e.Environment] = e.Version
		}
	}
	d, err := s.Show(t.Context(), "fn:k")
	if toolroom.CodeOf(err) == toolroom.CodeNotFound && pushes == 0 {
		return
	}
	if err != nil {
		t.Fatalf("write %d: %v", n, err)
	}
	if pushes != len(d.Versions) {
		t.Errorf("write %d: the log has %d pushes, and there are %d versions", n, pushes, len(d.Versions))
	}
	there := map[int]bool{}
	for _, v := range d.Versions {
		there[v.Number] = true
		if digest, err := v.Spec.Digest(); err != nil || digest != v.Digest {
			t.Errorf("write %d: version %d has another digest than its content: %v", n, v.Number, err)
		}
		if (v.Status == release.StatusActive) != (v.Number == served[release.Prod]) {
			t.Errorf("write %d: version %d is %s, and prod serves %d", n, v.Number, v.Status, served[release.Prod])
		}
	}
	now := map[string]int{}
	for _, r := range d.Releases {
		if now[r.Environment] = r.Version; r.Version != 0 && !there[r.Version] {
			t.Errorf("write %d: %s serves version %d, which is not there", n, r.Environment, r.Version)
		}
	}
	for _, environment := range []string{release.Prod, release.Test} {
		if now[environment] != served[environment] {
			t.Errorf("write %d: %s serves version %d, and the log ends with %d", n, environment, now[environment], served[environment])
		}
	}
}
