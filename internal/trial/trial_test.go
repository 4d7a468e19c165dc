package trial_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/toolroom/toolroom/internal/trial"
)

func TestATrialIsRememberedForAWhileAndOnlyForWhatWasTried(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	binary := filepath.Join(folder, "guest")
	write := func(path, text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	write(binary, "one")
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	r := trial.Record{Path: filepath.Join(folder, "new", "trial.json"), Of: []string{"a"}, Binaries: []string{binary}}
	want := func(what string, r trial.Record, at time.Time, ok bool) {
		t.Helper()
		if detail, found := r.Recall(at); found != ok || ok && detail != "it went well" {
			t.Errorf("%s: %q, %v", what, detail, found)
		}
	}
	want("before there was one", r, now, false)
	r.Keep(now, "it went well")
	want("at once", r, now, true)
	want("shortly before it is over", r, now.Add(trial.Lasts-1), true)
	want("after its time", r, now.Add(trial.Lasts), false)
	want("by a clock that went back", r, now.Add(-1), false)
	other := r
	other.Of = []string{"b"}
	want("of another thing", other, now, false)
	write(binary, "another")
	want("with another binary", r, now, false)
	r.Keep(now, "it went well")
	want("tried again", r, now, true)
	write(r.Path, "{")
	want("a file that is cut off", r, now, false)
	r.Keep(now, "it went well")
	r.Forget()
	want("forgotten", r, now, false)
	trial.Record{}.Keep(now, "it went well")
	want("without a file", trial.Record{}, now, false)
}
