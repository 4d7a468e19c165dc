//go:build amd64 || arm64

package lockdown

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestAForkBombEndsAtTheLimit(t *testing.T) {
	t.Parallel()
	for _, s := range namespaced() {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			const limit = 40
			o := do(t, s, task{Guest: []string{"forks"}, Limits: Limits{PIDs: limit}})
			var n int
			if _, err := fmt.Sscan(o.Stdout, &n); err != nil || o.Exit.Code != 0 {
				t.Fatalf("%v: %+v", err, o)
			}
			// The threads of the guest's runtime count, too.
			if n == 0 || n >= limit {
				t.Errorf("%d processes beside its own were made under a limit of %d", n, limit)
			}
		})
	}
}

func TestAMemoryBombIsEnded(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"memory", "shared memory"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			o := do(t, rootServer, task{Guest: []string{kind}, Limits: Limits{Memory: 64 << 20}})
			if o.Exit.Signal != int(unix.SIGKILL) || o.Exit.Exceeded != "memory" {
				t.Errorf("%+v", o)
			}
			// A process that is being ended may still get some pages.
			if o.Usage.Memory == 0 || o.Usage.Memory > 65<<20 {
				t.Errorf("the peak is %d", o.Usage.Memory)
			}
		})
	}
}

func TestAMemoryBombIsRefusedMemoryWithoutCgroups(t *testing.T) {
	t.Parallel()
	for _, s := range []setup{nobodyServer, flatServer} {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			o := do(t, s, task{Guest: []string{"memory"}, Limits: Limits{Memory: 512 << 20}, BestEffort: true})
			if o.Stdout != "refused" || o.Exit.Code != 3 {
				t.Errorf("%+v", o)
			}
			if len(o.Held) != 1 || o.Held[0].By != "rlimit" || o.Held[0].Gap == "" {
				t.Errorf("the limit is reported to be held by %+v", o.Held)
			}
		})
	}
}

func TestALimitThatCannotBeEnforcedIsRefused(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		limits Limits
		setup  setup
		want   string
	}{
		{Limits{Memory: 1 << 30}, nobodyServer, "memory"},
		{Limits{CPUs: 1}, nobodyServer, "cpus"},
		{Limits{CPUTime: time.Second}, nobodyServer, "cpu_time"},
		{Limits{PIDs: 10}, flatServer, "pids"},
		{Limits{Disk: 1 << 20}, flatServer, "disk"},
	} {
		t.Run(tt.setup.name+" "+tt.want, func(t *testing.T) {
			t.Parallel()
			job := task{Guest: []string{"exit", "0"}, Limits: tt.limits, Minimum: []Layer{Seccomp}}
			o := do(t, tt.setup, job)
			if !o.Limit || !strings.Contains(o.Error, tt.want+" (") {
				t.Errorf("%+v", o)
			}
			job.BestEffort = true
			if o := do(t, tt.setup, job); o.Error != "" || o.Held[0].Limit != tt.want || o.Held[0].Gap == "" {
				t.Errorf("with best effort: %+v", o)
			}
		})
	}
}

func TestADiskThatIsFullStaysFull(t *testing.T) {
	t.Parallel()
	for _, s := range namespaced() {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			o := do(t, s, task{Guest: []string{"disk"}, Limits: Limits{Disk: 4 << 20}})
			if want := "4194304 true\n0 true\n0 true\n"; o.Stdout != want {
				t.Errorf("got %q, want %q", o.Stdout, want)
			}
			o = do(t, s, task{Guest: []string{"inodes"}, Limits: Limits{Inodes: 100}})
			var n int
			var full bool
			if _, err := fmt.Sscan(o.Stdout, &n, &full); err != nil || !full || n == 0 || n >= 100 {
				t.Errorf("files: %q", o.Stdout)
			}
		})
	}
}

func TestFileLimitsHold(t *testing.T) {
	t.Parallel()
	for _, s := range namespaced() {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			o := do(t, s, task{Guest: []string{"files"}, Limits: Limits{OpenFiles: 50}})
			var n int
			var full bool
			if _, err := fmt.Sscan(o.Stdout, &n, &full); err != nil || !full || n >= 50 {
				t.Errorf("open files: %q", o.Stdout)
			}
		})
	}
}

func TestProcessorTimeOfTheWholeTreeIsLimited(t *testing.T) {
	t.Parallel()
	o := do(t, rootServer, task{Guest: []string{"spin in children", "3"}, Limits: Limits{CPUTime: 300 * time.Millisecond}})
	if o.Exit.Exceeded != "cpu_time" || o.Usage.CPU < 300*time.Millisecond {
		t.Errorf("%+v", o)
	}
	o = do(t, nobodyServer, task{Guest: []string{"spin", "0"}, Limits: Limits{CPUTime: time.Second}, BestEffort: true})
	if o.Exit.Exceeded != "cpu_time" {
		t.Errorf("as nobody: %+v", o)
	}
}

func TestAShareOfProcessorsIsEnforced(t *testing.T) {
	t.Parallel()
	var h HostMachine
	m := h.machine()
	if m.cgroups.mechanism("cpu") == "" {
		missing(t, "there is no cpu controller here")
	}
	p, err := h.Start(t.Context(), guestSpec(Spec{Limits: Limits{CPUs: 0.1}}, "spin", "1"))
	if err != nil {
		t.Fatal(err)
	}
	defer p.Kill()
	waitFor(t, "the program was never throttled", func() bool { return p.group.number("cpu", "cpu.stat#nr_throttled", "cpu.stat#nr_throttled") > 0 })
}

// guestSpec makes s start this binary as a guest.
func guestSpec(s Spec, args ...string) Spec {
	s.Env = append(s.Env, "SELF="+exe)
	s.Path, s.Args = exe, append([]string{"guest", guestRole}, args...)
	if s.Root.Source == "" {
		s.Root = System()
	}
	s.Binds = append(s.Binds, Bind{Source: exe})
	return s
}
