//go:build integration

package runtimes

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/opencontainers/runtime-spec/specs-go"

	"github.com/toolroom/toolroom/bridge"
	"github.com/toolroom/toolroom/drivers/containerd"
	"github.com/toolroom/toolroom/drivers/docker"
	"github.com/toolroom/toolroom/drivers/gvisor"
	"github.com/toolroom/toolroom/drivers/image"
	"github.com/toolroom/toolroom/drivers/oci"
	"github.com/toolroom/toolroom/internal/engine"
	"github.com/toolroom/toolroom/internal/engine/hosted"
	"github.com/toolroom/toolroom/internal/sandbox/process"
	"github.com/toolroom/toolroom/sandbox"
)

// measured is a driver, and the command with which its engine alone runs `true` in the same
// image.
type measured struct {
	sandbox.Driver
	bare []string
	// folder is a part of the command lines of the engine's daemons; empty if it
	// has none.
	folder string
}

// each runs a benchmark for every driver.
func each(b *testing.B, f func(*testing.B, measured)) {
	b.Run("process", func(b *testing.B) {
		program(b, "bwrap", "bubblewrap")
		f(b, measured{process.New(made.guest, nil), []string{
			"bwrap", "--unshare-all", "--ro-bind", "/usr", "/usr", "--symlink", "usr/bin", "/bin", "--symlink", "usr/lib", "/lib", "--symlink", "usr/lib64", "/lib64",
			"--proc", "/proc", "--dev", "/dev", "true",
		}, ""})
	})
	b.Run("gvisor", func(b *testing.B) {
		program(b, "runsc", "gvisor.dev/gvisor/runsc")
		dir := bareBundle(b)
		f(b, measured{gvisor.New(gvisor.Options{Work: folder(b), Root: made.root}), []string{
			"runsc", "--root", filepath.Join(dir, "state"), "--network=none", "--overlay2=root:memory", "run", "--bundle", dir, filepath.Base(dir),
		}, ""})
	})
	b.Run("containerd", func(b *testing.B) {
		socket := containerdEngine(b)
		f(b, measured{containerdDriver(b, containerd.Options{Address: socket}), []string{
			"ctr", "--address", socket, "--namespace", "toolroom", "run", "--rm", image.Name, "bench", "true",
		}, filepath.Dir(socket)})
	})
	b.Run("docker", func(b *testing.B) {
		d, host := dockerDriver(b, docker.Options{})
		f(b, measured{d, []string{"docker", "--host", host, "run", "--rm", "--network=none", image.Name, "true"}, filepath.Dir(strings.TrimPrefix(host, "unix://"))})
	})
	b.Run("microvm", func(b *testing.B) { f(b, measured{machines(b, true), bareMachine(b), ""}) })
}

// bareBundle is a bundle like the driver's, with the same limits, whose program ends at once.
func bareBundle(b *testing.B) string {
	b.Helper()
	dir := folder(b)
	spec := oci.Spec(benchSpec, oci.Options{ID: filepath.Base(dir), Root: made.root})
	spec.Process.Args = []string{"/bin/true"}
	spec.Mounts = slices.DeleteFunc(spec.Mounts, func(m specs.Mount) bool { return m.Source == "" }) // the guest
	text, err := json.Marshal(spec)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "config.json"), text, 0o600)
	}
	if err != nil {
		b.Fatal(err)
	}
	return dir
}

// bareMachine is QEMU with a VM of the same kind, kernel and size as the driver's, which ends
// at once.
func bareMachine(b *testing.B) []string {
	b.Helper()
	busybox := program(b, "busybox", "busybox-static")
	dir := folder(b)
	script := "set -e; cd " + dir + "; mkdir root; cp " + busybox + " root/busybox; printf '#!/busybox sh\n/busybox reboot -f\n' > root/init; chmod +x root/init; " +
		"cd root; printf 'busybox\ninit\n' | " + busybox + " cpio -o -H newc > ../initrd"
	if out, err := exec.Command("sh", "-c", script).CombinedOutput(); err != nil {
		b.Fatalf("%v: %s", err, out)
	}
	return []string{
		"qemu-system-x86_64", "-M", "microvm,x-option-roms=off,pit=on,pic=on,rtc=on", "-accel", "tcg", "-cpu", "max", "-m", "512", "-smp", "1",
		"-nodefaults", "-no-user-config", "-display", "none", "-no-reboot", "-kernel", filepath.Join(machineImage(b), "vmlinux"),
		"-initrd", filepath.Join(dir, "initrd"), "-append", fmt.Sprintf("console=ttyS0 quiet reboot=t panic=-1 tsc_early_khz=%d tsc=reliable lpj=8000000 rdinit=/init", clockKHz(b)),
	}
}

// clockKHz is the clock rate of the emulated VM.
func clockKHz(b *testing.B) int {
	b.Helper()
	text, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		b.Fatal(err)
	}
	_, after, _ := strings.Cut(string(text), "cpu MHz")
	line, _, _ := strings.Cut(after, "\n")
	mhz, err := strconv.ParseFloat(strings.Trim(line, "\t: "), 64)
	if err != nil {
		b.Fatal(err)
	}
	return int(mhz * 1000)
}

var benchSpec = sandbox.Spec{Profile: sandbox.Standard, Limits: sandbox.Limits{Memory: 256 << 20, PIDs: 128}}

func (m measured) start(b *testing.B) sandbox.Sandbox {
	b.Helper()
	spec := benchSpec
	spec.Guest = made.guest
	instance, err := m.Start(b.Context(), spec)
	if err != nil {
		b.Fatal(err)
	}
	if _, err := io.ReadFull(instance.Stream(), make([]byte, 4)); err != nil {
		b.Fatal(err)
	}
	return instance
}

// BenchmarkColdStart measures a guest from its start to its hello, and its removal. In turn
// with it, it measures the engine's own command.
func BenchmarkColdStart(b *testing.B) {
	each(b, func(b *testing.B, m measured) {
		var driver, bare []time.Duration
		for round := 0; b.Loop(); round++ {
			began := time.Now()
			if err := m.start(b).Kill(b.Context()); err != nil {
				b.Fatal(err)
			}
			between := time.Now()
			if out, err := exec.CommandContext(b.Context(), m.bare[0], m.bare[1:]...).CombinedOutput(); err != nil {
				b.Fatalf("%s: %v: %s", m.bare[0], err, out)
			}
			if round > 0 { // in the first round all caches are empty
				driver, bare = append(driver, between.Sub(began)), append(bare, time.Since(between))
			}
		}
		if len(driver) == 0 {
			b.Skip("it needs more rounds: -benchtime 10x")
		}
		slices.Sort(driver)
		slices.Sort(bare)
		for name, at := range map[string]int{"least": 0, "median": len(driver) / 2} {
			b.ReportMetric(driver[at].Seconds()*1000, name+"-ms")
			b.ReportMetric(bare[at].Seconds()*1000, name+"-bare-ms")
			b.ReportMetric(driver[at].Seconds()/bare[at].Seconds(), name+"-ratio")
		}
	})
}

// adder is a call handler with one tool.
type adder struct{ bridge.Handler }

func (adder) Call(_ context.Context, _ string, arguments bridge.Map) (bridge.Value, error) {
	return arguments.Int("a") + arguments.Int("b"), nil
}

func (adder) Print(string, string) {}

// BenchmarkHostCall measures the round trip of one tool call in the program, as the average
// of a thousand sequential calls.
func BenchmarkHostCall(b *testing.B) {
	const source = "import time\nbegan = time.perf_counter()\nfor i in range(1000):\n    tools.math.add(a=i, b=1)\n(time.perf_counter() - began) * 1000"
	each(b, func(b *testing.B, m measured) {
		e, least := hosted.New(m.Driver), 0.0
		spec := benchSpec
		spec.Guest = made.guest
		for b.Loop() {
			result, err := e.Run(b.Context(), engine.Job{
				Run: "bench", Sandbox: spec,
				Program: bridge.Program{Language: "python", Name: "main.py", Source: source, Limits: bridge.Limits{Calls: 1000}},
			}, adder{})
			if err != nil || result.Outcome.Failure != nil {
				b.Fatalf("%v, %+v", err, result)
			}
			if took, ok := result.Outcome.Value.(float64); ok && (least == 0 || took < least) {
				least = took
			}
		}
		b.ReportMetric(least, "least-µs/call")
	})
}

// BenchmarkMemory measures the memory of an idle guest and of all processes that its engine
// starts for it, as their proportional set size (proc(5)).
func BenchmarkMemory(b *testing.B) {
	const guests = 5
	each(b, func(b *testing.B, m measured) {
		var sum int64
		for b.Loop() {
			if err := m.start(b).Kill(b.Context()); err != nil { // what the first one starts is the engine's own
				b.Fatal(err)
			}
			before := m.memory()
			var instances []sandbox.Sandbox
			for range guests {
				instances = append(instances, m.start(b))
			}
			sum += (m.memory() - before) / guests
			for _, instance := range instances {
				if err := instance.Kill(b.Context()); err != nil {
					b.Error(err)
				}
			}
		}
		b.ReportMetric(float64(sum)/float64(b.N)/(1<<20), "MiB/guest")
	})
}

// memory returns the memory of the child processes of this process, and of the engine's
// processes. Those have its folder in their command lines or in those of their parents.
func (m measured) memory() int64 {
	parents, ours, sum := map[int]int{}, map[int]bool{os.Getpid(): true}, int64(0)
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range stats {
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		text, _ := os.ReadFile(path)
		if after := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:])); len(after) > 1 { // state and parent
			parents[pid], _ = strconv.Atoi(after[1])
		}
		line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		ours[pid] = ours[pid] || m.folder != "" && bytes.Contains(line, []byte(m.folder))
	}
	for pid := range parents {
		if pid == os.Getpid() {
			continue
		}
		for up := pid; up > 1; up = parents[up] {
			if ours[up] {
				sum += pss(pid)
				break
			}
		}
	}
	return sum
}

func pss(pid int) int64 {
	f, err := os.Open(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	if err != nil {
		return 0
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if rest, ok := strings.CutPrefix(lines.Text(), "Pss:"); ok {
			kb, _ := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
			return kb << 10
		}
	}
	return 0
}
