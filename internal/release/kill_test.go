package release_test

import (
	"bufio"
	"context"
	"os"
	"os/exec"
	"strconv"
	"testing"
	"time"

	"github.com/toolroom/toolroom/internal/release"
)

// killedHome names the folder in which a child of the test below works.
const killedHome = "TOOLROOM_TEST_KILLED_HOME"

// TestAKillLeavesNoHalfRelease kills a process that pushes, releases and rolls back, at
// changing times, and checks what it has left after each kill.
func TestAKillLeavesNoHalfRelease(t *testing.T) {
	if home := os.Getenv(killedHome); home != "" {
		workUntilKilled(t, home)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	home, kills := t.TempDir(), 20
	if testing.Short() {
		kills = 5
	}
	for i := range kills {
		child := exec.Command(self, "-test.run=^TestAKillLeavesNoHalfRelease$")
		child.Env = append(os.Environ(), killedHome+"="+home)
		out, err := child.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := child.Start(); err != nil {
			t.Fatal(err)
		}
		// The child says when a round begins; in one of them it is killed somewhere within
		// some writes.
		rounds := bufio.NewReader(out)
		for range min(i, 5) + 1 {
			if _, err := rounds.ReadString('\n'); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Duration(i) * 34 * time.Millisecond / time.Duration(kills))
		if err := child.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = child.Wait() // it was killed
		checkWhole(t, home)
	}
	if versions, err := newService(t, home).Store.Versions(t.Context(), "fn:k"); err != nil || len(versions) < 3 {
		t.Errorf("only %d versions were pushed: %v", len(versions), err)
	}
}

func workUntilKilled(t *testing.T, home string) {
	s := newService(t, home)
	ctx := context.Background()
	for n := 0; ; n++ {
		os.Stdout.WriteString("works\n")
		if _, err := s.Push(ctx, release.Upload{Files: map[string]string{"k": strconv.Itoa(os.Getpid()) + "/" + strconv.Itoa(n)}, File: "k", Base: -1}, "ada"); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Release(ctx, release.Order{Tool: "fn:k"}, "ada"); err != nil {
			t.Fatal(err)
		}
		if n%3 == 2 {
			if _, err := s.Rollback(ctx, "fn:k", release.Prod, 0, "", "ada"); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// checkWhole checks that versions, release and log agree.
func checkWhole(t *testing.T, home string) {
	t.Helper()
	s := newService(t, home)
	d, err := s.Show(t.Context(), "fn:k")
	if err != nil {
		t.Fatal(err)
	}
	log, err := s.Store.ReleaseLog(t.Context(), "fn:k", -1)
	if err != nil {
		t.Fatal(err)
	}
	pushes, served := 0, 0
	for _, e := range log { // newest first
		if e.Action == release.ActionPush {
			pushes++
		} else if served == 0 {
			served = e.Version
		}
	}
	if pushes != len(d.Versions) {
		t.Errorf("the log has %d pushes, and there are %d versions", pushes, len(d.Versions))
	}
	now := 0
	if len(d.Releases) > 0 {
		now = d.Releases[0].Version
	}
	if now != served {
		t.Errorf("prod serves version %d, and the log ends with %d", now, served)
	}
	for i, v := range d.Versions {
		if want := len(d.Versions) - i; v.Number != want {
			t.Errorf("version %d is in the place of %d", v.Number, want)
		}
		if digest, err := v.Spec.Digest(); err != nil || digest != v.Digest {
			t.Errorf("version %d has another digest than its content: %v", v.Number, err)
		}
		if (v.Status == release.StatusActive) != (v.Number == now) {
			t.Errorf("version %d is %s, and prod serves %d", v.Number, v.Status, now)
		}
	}
}
