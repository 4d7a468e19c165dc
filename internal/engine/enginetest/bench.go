package enginetest

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/toolroom/toolroom/bridge"
	"github.com/toolroom/toolroom/internal/engine"
)

// Bench measures an engine: an empty run, one tool call, ten calls in sequence, and a
// thousand at once. Each starts in a state that no earlier program has touched, with
// the tools that code mode would offer. The metrics are of single runs: the minimum,
// the median and the 99th percentile, in microseconds. On Linux it also measures the
// memory that one more running program takes in the engine's processes.
func Bench(b *testing.B, e engine.Engine, o Options) {
	b.Cleanup(func() {
		if err := e.Close(); err != nil {
			b.Error(err)
		}
	})
	s := &suite{engine: e, options: o}
	// First, because an engine keeps its started processes.
	b.Run("memory", func(b *testing.B) { s.memory(b, s.languages()[0]) })
	for _, language := range s.languages() {
		for _, c := range benchmarks {
			b.Run(language+"/"+c.name, func(b *testing.B) {
				j := s.job(language, c.source[language])
				j.Program.Limits.Calls = 1000
				j.Program.Tools = mentionedTools(j.Program)
				Measure(b, func() error {
					result, err := e.Run(b.Context(), j, newCallHandler())
					if err == nil && result.Outcome.Failure != nil {
						return result.Outcome.Failure
					}
					if err == nil && result.Outcome.Value != bridge.Value(c.value) {
						b.Errorf("it gave %s", describe(result))
					}
					return err
				})
			})
		}
	}
}

// mentionedTools returns the tools that code mode offers to a program: those of the
// namespaces in its text.
func mentionedTools(p bridge.Program) []bridge.Tool {
	return slices.DeleteFunc(slices.Clone(p.Tools), func(t bridge.Tool) bool { return !strings.Contains(p.Source, t.Path[0]) })
}

var benchmarks = []struct {
	name   string
	source map[string]string
	value  int64
}{
	{"nothing", map[string]string{"python": "1", "javascript": "return 1"}, 1},
	{"one call", map[string]string{"python": "tools.math.add(a=1, b=0)", "javascript": "return await tools.math.add({a: 1, b: 0})"}, 1},
	{"ten calls", map[string]string{
		"python":     "s = 0\nfor i in range(10):\n    s = tools.math.add(a=s, b=1)\ns",
		"javascript": "let s = 0; for (let i = 0; i < 10; i++) s = await tools.math.add({a: s, b: 1}); return s",
	}, 10},
	{"thousand calls at once", map[string]string{
		"python":     "import asyncio\nlen(await asyncio.gather(*[tools.math.add(a=n, b=n) for n in range(1000)]))",
		"javascript": "return (await Promise.all(Array.from({length: 1000}, (_, n) => tools.math.add({a: n, b: n})))).length",
	}, 1000},
}

// Measure repeats f, and reports the minimum, the 10th percentile, the median and the
// 99th percentile of its time, and the processor time of all processes for each, in
// microseconds. It does not count the first time, which starts things that the
// others reuse.
func Measure(b *testing.B, once func() error) {
	b.Helper()
	MeasureAfter(b, func() {}, once)
}

// MeasureAfter is like [Measure], with an uncounted step before each repetition.
func MeasureAfter(b *testing.B, before func(), once func() error) {
	b.Helper()
	if err := once(); err != nil {
		b.Fatal(err)
	}
	var took []time.Duration
	used := cpuTime()
	for b.Loop() {
		before()
		began := time.Now()
		if err := once(); err != nil {
			b.Fatal(err)
		}
		took = append(took, time.Since(began))
	}
	used = cpuTime() - used
	slices.Sort(took)
	at := func(share float64) float64 {
		return float64(took[int(share*float64(len(took)-1))].Nanoseconds()) / 1000
	}
	b.ReportMetric(at(0), "min-µs")
	b.ReportMetric(at(0.1), "p10-µs")
	b.ReportMetric(at(0.5), "p50-µs")
	b.ReportMetric(at(0.99), "p99-µs")
	if used > 0 {
		b.ReportMetric(float64(used.Microseconds())/float64(len(took)), "cpu-µs")
	}
}
