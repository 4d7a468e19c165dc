package hosted_test

import (
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/toolroom/toolroom/bridge"
	"github.com/toolroom/toolroom/internal/engine"
	"github.com/toolroom/toolroom/internal/engine/enginetest"
	"github.com/toolroom/toolroom/internal/engine/hosted"
	"github.com/toolroom/toolroom/internal/sandbox/process"
	"github.com/toolroom/toolroom/sandbox"
)

// BenchmarkBesideBwrap compares whole runs of the smallest program under the driver
// process with runs under bwrap and without a sandbox, in turn. Warm runs have
// their own sandbox, started in advance. Word is the time until the program's first
// output, without the removal of its sandbox.
func BenchmarkBesideBwrap(b *testing.B) {
	guest := filepath.Join(b.TempDir(), "toolroom-guest")
	if err := enginetest.BuildGuest(guest); err != nil {
		b.Fatal(err)
	}
	d := process.New(guest, nil)
	d.Cache = b.TempDir()
	spec := sandbox.Spec{Profile: sandbox.Standard, Guest: guest, Limits: sandbox.Limits{Memory: 256 << 20, PIDs: 64}}
	cold, warm := hosted.New(d), hosted.NewWarm(d, hosted.Warm{Size: 1})
	b.Cleanup(func() { cold.Close(); warm.Close() })
	warm.Warm(spec)
	walls := []string{
		"bwrap", "--unshare-all", "--ro-bind", "/usr", "/usr", "--symlink", "usr/bin", "/bin", "--symlink", "usr/lib", "/lib",
		"--symlink", "usr/lib64", "/lib64", "--proc", "/proc", "--dev", "/dev",
	}
	for _, l := range []struct {
		language, source string
		bare             []string
	}{
		{"shell", "echo 1", []string{"/bin/sh", "-c", "echo 1"}},
		{"python", "print(1)", []string{"/usr/bin/python3", "-c", "print(1)"}},
	} {
		b.Run(l.language, func(b *testing.B) {
			took := map[string][]time.Duration{}
			note := func(name string, d time.Duration) { took[name] = append(took[name], d) }
			command := func(name string, argv ...string) {
				began := time.Now()
				if out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput(); err != nil {
					b.Fatalf("%s: %v: %s", name, err, out)
				}
				note(name, time.Since(began))
			}
			program := func(name string, e *hosted.Engine) {
				h, began := &firstWord{}, time.Now()
				result, err := e.Run(b.Context(), engine.Job{
					Run: "bench", Sandbox: spec, Program: bridge.Program{Language: l.language, Name: "main", Source: l.source},
				}, h)
				if err != nil || result.Outcome.Failure != nil {
					b.Fatalf("%s: %v, %+v", name, err, result)
				}
				note(name, time.Since(began))
				note(name+"-word", h.at.Sub(began))
			}
			for b.Loop() {
				for warm.Stats()[0].Ready == 0 {
					time.Sleep(time.Millisecond)
				}
				time.Sleep(300 * time.Millisecond) // a guest prepares itself after its hello
				command("bare", l.bare...)
				command("bwrap", slices.Concat(walls, l.bare)...)
				program("cold", cold)
				program("warm", warm)
			}
			for name, list := range took {
				slices.Sort(list)
				b.ReportMetric(list[0].Seconds()*1000, name+"-min-ms")
				b.ReportMetric(list[len(list)/2].Seconds()*1000, name+"-p50-ms")
			}
		})
	}
}

// firstWord records when a program first prints.
type firstWord struct {
	bridge.Handler
	at time.Time
}

func (f *firstWord) Print(string, string) {
	if f.at.IsZero() {
		f.at = time.Now()
	}
}
