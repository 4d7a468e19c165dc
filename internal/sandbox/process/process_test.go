//go:build linux

package process_test

import (
	"context"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/engine"
	"github.com/toolroom/toolroom/internal/engine/enginetest"
	"github.com/toolroom/toolroom/internal/engine/hosted"
	"github.com/toolroom/toolroom/internal/guest"
	"github.com/toolroom/toolroom/internal/proc"
	"github.com/toolroom/toolroom/internal/sandbox/process"
	"github.com/toolroom/toolroom/sandbox"
	"github.com/toolroom/toolroom/sandbox/sandboxtest"
	"github.com/toolroom/toolroom/sandbox/sandboxtest/escape"
	"github.com/toolroom/toolroom/sandbox/sandboxtest/rogue"
)

// TestMain runs this binary as the guest, if asked to.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == escape.Arg {
		os.Exit(escape.Main(os.Args[2:]))
	}
	if code, ok := rogue.Main(os.Args[1:], guest.MainArg); ok {
		os.Exit(code)
	}
	if len(os.Args) > 1 && (os.Args[1] == guest.MainArg || os.Args[1] == guest.ToolArg) {
		os.Exit(guest.Main(os.Args[1:]))
	}
	if len(os.Args) > 2 && os.Args[1] == lackingArg {
		os.Exit(lacking(os.Args[2]))
	}
	os.Exit(m.Run())
}

// driver returns a driver that works on this machine, or skips the test. On CI it
// fails the test instead.
func driver(t *testing.T) (*process.Driver, sandbox.Spec) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	d := process.New(self, []string{guest.MainArg})
	d.Cache = t.TempDir()
	if p := d.Probe(t.Context()); p.State != sandbox.Available {
		if os.Getenv("CI") == "true" {
			t.Fatalf("%s: %s (%s)", p.State, p.Reason, p.Fix)
		}
		t.Skipf("%s: %s (%s)", p.State, p.Reason, p.Fix)
	}
	return d, sandbox.Spec{Guest: self, Args: []string{guest.MainArg}}
}

func TestTheSuite(t *testing.T) {
	d, spec := driver(t)
	sandboxtest.Documented(t, "../../../docs/runtimes.md", "process", d.Probe(t.Context()))
	sandboxtest.Run(t, sandboxtest.Options{
		New:       func(*testing.T) sandbox.Driver { return d },
		Guest:     spec.Guest,
		GuestArgs: spec.Args,
		Languages: []string{"python", "shell"},
		Leftovers: leftovers,
	})
}

func TestNothingGetsOut(t *testing.T) {
	t.Parallel()
	d, spec := driver(t)
	sandboxtest.Escape(t, sandboxtest.Options{
		New: func(*testing.T) sandbox.Driver { return d }, Guest: spec.Guest, GuestArgs: spec.Args,
	}, nil)
}

func TestAGuestThatBreaksTheRulesEndsItsOwnRunOnly(t *testing.T) {
	d, spec := driver(t)
	sandboxtest.Rogue(t, sandboxtest.Options{
		New: func(*testing.T) sandbox.Driver { return d }, Guest: spec.Guest, GuestArgs: spec.Args, Leftovers: leftovers,
	})
}

// leftovers returns the remaining cgroups and processes of this test.
func leftovers(t *testing.T) []string {
	t.Helper()
	var left []string
	err := filepath.WalkDir("/sys/fs/cgroup", func(path string, e fs.DirEntry, err error) error {
		if err == nil && e.IsDir() && strings.HasPrefix(e.Name(), "toolroom-sandbox-"+proc.Owner()+"-") {
			left = append(left, path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range stats {
		stat, err := os.ReadFile(path)
		if err == nil && strings.Contains(string(stat), " "+strconv.Itoa(os.Getpid())+" ") && !strings.HasPrefix(string(stat), strconv.Itoa(os.Getpid())+" ") {
			left = append(left, string(stat))
		}
	}
	return left
}

func TestProgramsRunInTheOtherProfiles(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat("/usr/bin/python3"); err != nil {
		t.Fatal("this test needs /usr/bin/python3")
	}
	for _, profile := range []sandbox.Profile{sandbox.Dev, sandbox.Hardened} {
		t.Run(string(profile), func(t *testing.T) {
			t.Parallel()
			d, spec := driver(t)
			spec.Profile = profile
			enginetest.Run(t, enginetest.Options{
				New:       func(*testing.T) engine.Engine { return hosted.New(d) },
				Languages: []string{"python"},
				Sandbox:   spec,
			})
		})
	}
}

func TestASandboxReportsTheLimitsThatTheProbeAnnounced(t *testing.T) {
	t.Parallel()
	d, spec := driver(t)
	p := d.Probe(t.Context())
	for _, limit := range []sandbox.Limit{sandbox.LimitWall, sandbox.LimitCPU, sandbox.LimitMemory, sandbox.LimitPIDs, sandbox.LimitDisk, sandbox.LimitNetwork} {
		if (p.Holds[limit] == "") == (p.Lacks[limit] == "") {
			t.Errorf("%s: held by %q, lacking %q", limit, p.Holds[limit], p.Lacks[limit])
		}
	}
	spec.Limits = sandbox.Limits{Memory: 256 << 20, PIDs: 50, CPUs: 1, Disk: 16 << 20}
	spec.Egress = []string{"example.com:443"}
	spec.BestEffort = true
	instance, err := d.Start(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	defer instance.Kill(t.Context())
	for limit := range p.Holds {
		if instance.Held()[limit] != p.Holds[limit] && limit != sandbox.LimitWall {
			t.Errorf("%s: the sandbox says %q, the probe said %q", limit, instance.Held()[limit], p.Holds[limit])
		}
	}
	if instance.Isolation() != p.Isolation || !strings.HasPrefix(p.Isolation, "ns+net+") {
		t.Errorf("the sandbox says %q, the probe said %q", instance.Isolation(), p.Isolation)
	}
}

func TestAKilledGuestReportsTheSignal(t *testing.T) {
	t.Parallel()
	d, spec := driver(t)
	instance, err := d.Start(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	// The guest has sent its hello and waits for a program.
	if _, err := io.ReadFull(instance.Stream(), make([]byte, 4)); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := instance.Kill(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	exit, err := instance.Wait(t.Context())
	if err != nil || exit.Signal != "killed" {
		t.Errorf("%+v, %v", exit, err)
	}
}

func TestAFailedStartIsATypedError(t *testing.T) {
	t.Parallel()
	d, spec := driver(t)
	missing := spec
	missing.Guest = "/no/such/guest"
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	for _, tt := range []struct {
		name string
		ctx  context.Context
		spec sandbox.Spec
		code toolroom.Code
	}{
		{"no guest", t.Context(), missing, toolroom.CodeSandboxUnavailable},
		{"too late", cancelled, spec, toolroom.CodeSandboxUnavailable},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if _, err := d.Start(tt.ctx, tt.spec); toolroom.CodeOf(err) != tt.code {
				t.Errorf("got %v, want %s", err, tt.code)
			}
		})
	}
	none := process.New("/no/such/guest", nil)
	if p := none.Probe(t.Context()); p.State != sandbox.Unsupported || p.Reason == "" || p.Fix == "" {
		t.Errorf("without a guest: %+v", p)
	}
}

// BenchmarkStart measures a guest from its start to its hello, and its removal.
func BenchmarkStart(b *testing.B) {
	binary := filepath.Join(b.TempDir(), "toolroom-guest")
	if err := enginetest.BuildGuest(binary); err != nil {
		b.Fatal(err)
	}
	d := process.New(binary, nil)
	for _, profile := range []sandbox.Profile{sandbox.Standard, sandbox.Hardened} {
		b.Run(string(profile), func(b *testing.B) {
			spec := sandbox.Spec{Guest: binary, Profile: profile, BestEffort: true, Limits: sandbox.Limits{Memory: 256 << 20, PIDs: 64, CPUs: 1}}
			for b.Loop() {
				instance, err := d.Start(b.Context(), spec)
				if err != nil {
					b.Fatal(err)
				}
				if _, err := io.ReadFull(instance.Stream(), make([]byte, 4)); err != nil {
					b.Fatal(err)
				}
				if err := instance.Kill(b.Context()); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
