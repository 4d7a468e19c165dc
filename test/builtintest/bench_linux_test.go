package builtintest

import (
	"net/http"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/toolroom/toolroom"
)

// BenchmarkSearch searches the sources of Go, some ten thousand files. Each call of file:search
// is followed by a run of ripgrep, so that other programs disturb both alike. The figures are
// medians, by the clock and by processor time.
func BenchmarkSearch(b *testing.B) {
	root := filepath.Join(strings.TrimSpace(string(program(b, "go", "env", "GOROOT"))), "src")
	w := newBench(b, http.NotFoundHandler(), root)
	for _, query := range []string{`func \w+Handler\(`, `TODO\(\w+\)`, `ErrUnsupported`} {
		b.Run(query, func(b *testing.B) {
			var clock, cpu, rgClock, rgCPU []float64
			for b.Loop() {
				start, used := time.Now(), processorTime(b)
				w.call(b, "file:search", toolroom.Args{"query": query, "path": root, "limit": 200})
				clock = append(clock, milliseconds(time.Since(start)))
				cpu = append(cpu, milliseconds(processorTime(b)-used))
				rg := exec.CommandContext(b.Context(), "rg", "--line-number", query, root)
				start = time.Now()
				if _, err := rg.Output(); err != nil {
					b.Fatal(err)
				}
				rgClock = append(rgClock, milliseconds(time.Since(start)))
				rgCPU = append(rgCPU, milliseconds(rg.ProcessState.UserTime()+rg.ProcessState.SystemTime()))
			}
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(median(clock), "ms")
			b.ReportMetric(median(cpu), "cpu-ms")
			b.ReportMetric(median(rgClock), "rg-ms")
			b.ReportMetric(median(rgCPU), "rg-cpu-ms")
		})
	}
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func median(values []float64) float64 {
	slices.Sort(values)
	return values[len(values)/2]
}

// processorTime returns the processor time of this process.
func processorTime(b *testing.B) time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
