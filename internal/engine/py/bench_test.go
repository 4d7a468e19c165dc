package py_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/toolroom/toolroom/bridge"
	"github.com/toolroom/toolroom/internal/engine"
	"github.com/toolroom/toolroom/internal/engine/py"
	"github.com/toolroom/toolroom/sandbox"
)

// silent is a host with one tool, which gives back its argument.
type silent struct{}

func (silent) Call(_ context.Context, _ string, arguments bridge.Map) (bridge.Value, error) {
	return arguments.Get("n"), nil
}

func (silent) Chain(context.Context, []bridge.Value) (bridge.Value, error) { return nil, nil }

func (silent) Search(context.Context, string, int) (bridge.Value, error) { return nil, nil }

func (silent) Describe(context.Context, string, string) (bridge.Value, error) { return nil, nil }

func (silent) Put(context.Context, string, string, []byte) (bridge.Handle, error) {
	return bridge.Handle{}, nil
}

func (silent) Get(context.Context, string, int64, int64) ([]byte, bridge.Handle, error) {
	return nil, bridge.Handle{}, nil
}
func (silent) Print(string, string)              {}
func (silent) Progress(float64, float64, string) {}
func (silent) Log(string, string, bridge.Map)    {}

var numbers = []bridge.Tool{{
	ID: "number:same", Path: []string{"number", "same"}, Kind: "go",
	Parameters: []bridge.Parameter{{Name: "n", Type: "number", Required: true}},
}}

// BenchmarkRun runs a program in a state that no earlier program has touched.
// min, p50 and p99 are of single runs, in microseconds.
func BenchmarkRun(b *testing.B) {
	e := open(b)
	b.Cleanup(func() { _ = e.Close() })
	if p := e.Probe(b.Context()); p.State != sandbox.Available { // and the worker waits from then on
		b.Fatal(p.Reason)
	}
	for _, c := range []struct{ name, source string }{
		{"nothing", "1"},
		{"one call", "tools.number.same(n=1)"},
		{"ten calls", "sum(tools.number.same(n=i) for i in range(10))"},
		{"thousand calls at once", "import asyncio\nlen(await asyncio.gather(*[tools.number.same(n=i) for i in range(1000)]))"},
	} {
		b.Run(c.name, func(b *testing.B) { measure(b, e, c.source) })
	}
}

func measure(b *testing.B, e *py.Engine, source string) {
	job := engine.Job{Owner: "bench", Program: bridge.Program{
		Language: "python", Name: "main.py", Source: source, Tools: numbers, Limits: bridge.Limits{Calls: 1000},
	}}
	var times []time.Duration
	for b.Loop() {
		start := time.Now()
		result, err := e.Run(b.Context(), job, silent{})
		times = append(times, time.Since(start))
		if err != nil || result.Outcome.Failure != nil {
			b.Fatal(err, result.Outcome.Failure)
		}
	}
	slices.Sort(times)
	b.ReportMetric(float64(times[0].Nanoseconds())/1000, "min-µs")
	b.ReportMetric(float64(times[len(times)/2].Nanoseconds())/1000, "p50-µs")
	b.ReportMetric(float64(times[len(times)*99/100].Nanoseconds())/1000, "p99-µs")
}
