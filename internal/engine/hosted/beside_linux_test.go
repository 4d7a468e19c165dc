package hosted_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/toolroom/toolroom/bridge"
	"github.com/toolroom/toolroom/internal/engine"
	"github.com/toolroom/toolroom/internal/engine/hosted"
	"github.com/toolroom/toolroom/internal/sandbox/process"
	"github.com/toolroom/toolroom/sandbox"
)

// BenchmarkBesideBwrap takes whole runs of the smallest program under the driver
// process in turn with the same under bwrap, and with nothing around it. Warm
// runs have a sandbox of their own that waited.
func BenchmarkBesideBwrap(b *testing.B) {
	guest := filepath.Join(b.TempDir(), "toolroom-guest")
	build := exec.Command("go", "build", "-ldflags", "-s -w", "-o", guest, "github.com/toolroom/toolroom/cmd/toolroom-guest")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		b.Fatalf("%v: %s", err, out)
	}
	bare := map[string][]string{"python": {"/usr/bin/python3", "-c", "print(1)"}, "shell": {"/bin/sh", "-c", "echo 1"}}
	walls := []string{
		"bwrap", "--unshare-all", "--ro-bind", "/usr", "/usr", "--symlink", "usr/bin", "/bin", "--symlink", "usr/lib", "/lib",
		"--symlink", "usr/lib64", "/lib64", "--proc", "/proc", "--dev", "/dev",
	}
	source := map[string]string{"python": "print(1)", "shell": "echo 1"}
	spec := sandbox.Spec{Profile: sandbox.Standard, Guest: guest, Limits: sandbox.Limits{Memory: 256 << 20, PIDs: 64}}
	d := process.New(guest, nil)
	d.Cache = b.TempDir()
	cold, warm := hosted.New(d), hosted.NewWarm(d, hosted.Warm{Size: 1})
	b.Cleanup(func() { cold.Close(); warm.Close() })
	warm.Warm(spec)
	for _, language := range []string{"shell", "python"} {
		run := func(e *hosted.Engine) error {
			j := engine.Job{Run: "bench", Sandbox: spec, Program: bridge.Program{Language: language, Name: "main", Source: source[language]}}
			result, err := e.Run(b.Context(), j, quiet{})
			if err == nil && result.Outcome.Failure != nil {
				return result.Outcome.Failure
			}
			return err
		}
		command := func(argv ...string) error { return exec.Command(argv[0], argv[1:]...).Run() }
		kinds := []struct {
			name string
			once func() error
		}{
			{"bare", func() error { return command(bare[language]...) }},
			{"bwrap", func() error { return command(slices.Concat(walls, bare[language])...) }},
			{"cold", func() error { return run(cold) }},
			{"warm", func() error { return run(warm) }},
		}
		b.Run(language, func(b *testing.B) {
			took := make([][]time.Duration, len(kinds))
			used := make([][]time.Duration, len(kinds))
			for b.Loop() {
				for i, k := range kinds {
					if k.name == "warm" {
						for warm.Stats()[0].Ready == 0 {
							time.Sleep(time.Millisecond)
						}
						time.Sleep(200 * time.Millisecond) // it prepares itself a moment after its hello
					}
					began, before := time.Now(), cpuUsed()
					if err := k.once(); err != nil {
						b.Fatal(k.name, err)
					}
					took[i] = append(took[i], time.Since(began))
					used[i] = append(used[i], cpuUsed()-before)
				}
			}
			for i, k := range kinds {
				slices.Sort(took[i])
				slices.Sort(used[i])
				for name, at := range map[string]int{"min": 0, "p50": len(took[i]) / 2} {
					b.ReportMetric(float64(took[i][at].Microseconds())/1000, fmt.Sprintf("%s-%s-ms", k.name, name))
					b.ReportMetric(float64(used[i][at].Microseconds())/1000, fmt.Sprintf("%s-%s-cpu-ms", k.name, name))
				}
			}
		})
	}
}

func cpuUsed() time.Duration {
	text, _ := os.ReadFile(os.Getenv("BENCH_CPUACCT"))
	var n int64
	fmt.Sscan(string(text), &n)
	return time.Duration(n)
}
