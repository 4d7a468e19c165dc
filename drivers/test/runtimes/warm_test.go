//go:build integration

package runtimes

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/toolroom/toolroom/bridge"
	"github.com/toolroom/toolroom/drivers/containerd"
	"github.com/toolroom/toolroom/drivers/docker"
	"github.com/toolroom/toolroom/drivers/gvisor"
	"github.com/toolroom/toolroom/drivers/microvm"
	"github.com/toolroom/toolroom/internal/engine"
	"github.com/toolroom/toolroom/internal/engine/hosted"
	"github.com/toolroom/toolroom/internal/sandbox/process"
	"github.com/toolroom/toolroom/sandbox"
)

// usual is the sandbox specification of programs in the tests of warm sandboxes.
func usual() sandbox.Spec {
	return sandbox.Spec{Profile: sandbox.Standard, Guest: made.guest, Limits: sandbox.Limits{Memory: 256 << 20}}
}

// awaitWarm waits until a warm sandbox is ready.
func awaitWarm(t testing.TB, e *hosted.Engine) {
	t.Helper()
	for e.Stats()[0].Ready == 0 {
		if err := e.Stats()[0].Problem; err != nil {
			t.Fatal(err)
		}
		select {
		case <-t.Context().Done():
			t.Fatal(t.Context().Err())
		case <-time.After(time.Millisecond):
		}
	}
}

// runWarm runs a program in a warm sandbox, and returns the time to its first output.
func runWarm(t testing.TB, e *hosted.Engine) time.Duration {
	t.Helper()
	awaitWarm(t, e)
	return runProgram(t, e, "shell", "echo begun; test ! -e mark && touch mark")
}

func runProgram(t testing.TB, e *hosted.Engine, language, source string) time.Duration {
	t.Helper()
	began, h := time.Now(), &listener{}
	result, err := e.Run(t.Context(), engine.Job{
		Run: "warm", Owner: "tester", Sandbox: usual(),
		Program: bridge.Program{Language: language, Source: source, Limits: bridge.Limits{Wall: 60_000}},
	}, h)
	if err != nil || result.Outcome.Failure != nil || result.Outcome.Exit != 0 || h.heard.IsZero() {
		t.Fatalf("%+v, %v", result, err)
	}
	return h.heard.Sub(began)
}

// listener records the time of a program's first output.
type listener struct {
	bridge.Handler
	heard time.Time
}

func (l *listener) Print(string, string) {
	if l.heard.IsZero() {
		l.heard = time.Now()
	}
}

func TestContainersWaitForProgramsAndServeOneEach(t *testing.T) {
	t.Parallel()
	d, host := dockerDriver(t, docker.Options{})
	e := hosted.NewWarm(d, hosted.Warm{Size: 2})
	e.Warm(usual())
	for range 3 {
		runWarm(t, e)
	}
	s := e.Stats()[0]
	if s.Taken != 3 || s.Drained != 0 || s.Failures != 0 {
		t.Errorf("%+v", s)
	}
	if err := e.Close(); err != nil {
		t.Error(err)
	}
	if left := containers(t, host); len(left) > 0 {
		t.Errorf("after the end there is left:\n%s", strings.Join(left, "\n"))
	}
}

// machines returns a driver of QEMU's VMs, with the image of scripts/microvm.sh or one that
// it builds now. If cold, each VM boots instead of being restored.
func machines(t testing.TB, cold bool) *microvm.Driver {
	t.Helper()
	program(t, "qemu-system-x86_64", "qemu-system-x86")
	return microvm.NewQEMU(microvm.Options{Folder: machineImage(t), Guest: made.guest, Cold: cold})
}

// machineImage returns the folder of the image for machines.
func machineImage(t testing.TB) string {
	t.Helper()
	image := os.Getenv("TOOLROOM_TEST_MICROVM")
	if image == "" {
		image = filepath.Join(filepath.Dir(made.root), "microvm") // for all
		if _, err := os.Stat(filepath.Join(image, "image.json")); err != nil {
			if err := microvm.Setup(t.Context(), microvm.SetupOptions{Folder: image}); err != nil {
				t.Fatal(err)
			}
		}
	}
	return image
}

// waited is how long a sandbox has been idle when it is measured, because its guest prepares
// itself for a moment after its hello.
const waited = 2 * time.Second

// BenchmarkWarmStart measures a shell script and a Python program from the call to the first
// output, in a warm sandbox. p50-ms is the median. ns/op is the whole run, with its end and
// the wait for the next sandbox.
func BenchmarkWarmStart(b *testing.B) {
	for _, row := range []struct {
		name   string
		driver func(b *testing.B) sandbox.Driver
	}{
		{"process", func(*testing.B) sandbox.Driver { return process.New(made.guest, nil) }},
		{"docker", func(b *testing.B) sandbox.Driver {
			d, _ := dockerDriver(b, docker.Options{})
			return d
		}},
		{"containerd", func(b *testing.B) sandbox.Driver {
			return containerdDriver(b, containerd.Options{Address: containerdEngine(b)})
		}},
		{"gvisor", func(b *testing.B) sandbox.Driver {
			program(b, "runsc", "gvisor.dev/gvisor/runsc")
			return gvisor.New(gvisor.Options{Work: folder(b), Root: made.root})
		}},
		{"microvm", func(b *testing.B) sandbox.Driver { return machines(b, false) }},
	} {
		b.Run(row.name, func(b *testing.B) {
			e := hosted.NewWarm(row.driver(b), hosted.Warm{Size: 1})
			defer e.Close()
			e.Warm(usual())
			programs := map[string]string{"shell": "echo begun", "python": "print('begun')"}
			starts := map[string][]time.Duration{}
			for b.Loop() {
				for language, source := range programs {
					awaitWarm(b, e)
					time.Sleep(waited)
					starts[language] = append(starts[language], runProgram(b, e, language, source))
				}
			}
			for language, list := range starts {
				slices.Sort(list)
				b.ReportMetric(float64(list[len(list)/2])/1e6, language+"-p50-ms")
				b.ReportMetric(float64(list[0])/1e6, language+"-best-ms")
			}
		})
	}
}
