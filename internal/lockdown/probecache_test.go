package lockdown

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestAProbeIsCachedForAWhileAndOnlyForTheSameThing(t *testing.T) {
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
	r := ProbeCache{Path: filepath.Join(folder, "new", "probe.json"), Of: []string{"a"}, Binaries: []string{binary}}
	want := func(what string, r ProbeCache, at time.Time, ok bool) {
		t.Helper()
		if detail, found := r.Recall(at); found != ok || ok && detail != "it worked" {
			t.Errorf("%s: %q, %v", what, detail, found)
		}
	}
	want("before a probe", r, now, false)
	r.Keep(now, "it worked")
	want("at once", r, now, true)
	want("shortly before the end of the TTL", r, now.Add(probeTTL-1), true)
	want("after the TTL", r, now.Add(probeTTL), false)
	want("with a clock that was set back", r, now.Add(-1), false)
	other := r
	other.Of = []string{"b"}
	want("for another thing", other, now, false)
	write(binary, "another")
	want("with another binary", r, now, false)
	r.Keep(now, "it worked")
	want("probed again", r, now, true)
	write(r.Path, "{")
	want("with a truncated file", r, now, false)
	r.Keep(now, "it worked")
	r.Forget()
	want("forgotten", r, now, false)
	ProbeCache{}.Keep(now, "it worked")
	want("without a file", ProbeCache{}, now, false)
}
