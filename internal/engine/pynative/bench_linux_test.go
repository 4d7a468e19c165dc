package pynative_test

import (
	"os/exec"
	"slices"
	"testing"
	"time"

	"github.com/toolroom/toolroom/internal/engine/pynative"
)

// Each benchmark reports the least, the median and the 99th percentile, in milliseconds.
func measure(b *testing.B, before func(), once func() error) {
	b.Helper()
	var took []time.Duration
	for b.Loop() {
		before()
		started := time.Now()
		if err := once(); err != nil {
			b.Fatal(err)
		}
		took = append(took, time.Since(started))
	}
	slices.Sort(took)
	at := func(share float64) float64 {
		return float64(took[int(share*float64(len(took)-1))].Microseconds()) / 1000
	}
	b.ReportMetric(at(0), "min-ms")
	b.ReportMetric(at(0.5), "p50-ms")
	b.ReportMetric(at(0.99), "p99-ms")
}

// A call finds a process that waits for it, as after a pause of its owner.
func BenchmarkWarm(b *testing.B) { warm(b, "1 + 1", 4*time.Millisecond) }

// Calls follow one another at once: the processes that wait run out.
func BenchmarkWithoutPause(b *testing.B) { warm(b, "1 + 1", 0) }

func BenchmarkTenToolCalls(b *testing.B) {
	warm(b, "sum(call_tool('echo:value', value=i) for i in range(10))", 4*time.Millisecond)
}

func warm(b *testing.B, source string, pause time.Duration) {
	e := open(b, pynative.Options{Ahead: 4})
	run := func() error {
		result, err := e.Run(b.Context(), job("a", source), &host{})
		if err == nil && result.Outcome.Failure != nil {
			err = result.Outcome.Failure
		}
		return err
	}
	if err := run(); err != nil {
		b.Fatal(err)
	}
	measure(b, func() {
		for e.Stats().Waiting < 2 && pause > 0 {
			time.Sleep(pause)
		}
	}, run)
	s := e.Stats()
	b.ReportMetric(float64(s.Hits)/float64(s.Hits+s.Misses), "hits")
	b.ReportMetric(float64(s.Memory>>10), "peak-KiB")
}

func BenchmarkPlainPython(b *testing.B) {
	measure(b, func() {}, func() error { return exec.Command("/usr/bin/python3", "-c", "1 + 1").Run() })
}

func BenchmarkBubblewrapPython(b *testing.B) {
	if _, err := exec.LookPath("bwrap"); err != nil {
		b.Fatal("this is compared with bwrap, which is not there")
	}
	measure(b, func() {}, func() error {
		return exec.Command("bwrap", "--unshare-all", "--ro-bind", "/usr", "/usr", "--symlink", "usr/lib", "/lib", "--symlink", "usr/lib64", "/lib64",
			"--proc", "/proc", "--dev", "/dev", "/usr/bin/python3", "-c", "1 + 1").Run()
	})
}
