// Package toolbench measures how long calls of function tools take, and for comparison the plain
// interpreters and the engines alone, all in one run.
package toolbench

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/bridge"
	"github.com/toolroom/toolroom/internal/engine"
)

// Room is what the benchmark needs of an open room that serves.
type Room struct {
	// Push pushes a file, with its packages from a folder or an index, and releases its tool
	// to prod. It returns the layer of its packages.
	Push func(ctx context.Context, name, source, packages string) (engine.Layer, error)
	// Call calls a tool.
	Call func(ctx context.Context, tool, arguments string) *toolroom.Result
	// Engine returns an engine of the room, or nil.
	Engine func(name string) engine.Engine
}

// Options say what to measure.
type Options struct {
	// Calls is how many calls each figure has, a quarter of it for what starts an
	// interpreter each time.
	Calls int
	// Only are the languages to measure: python, javascript; all if empty.
	Only []string
	// Packages says whether tools with packages are measured. Wheels and Tarballs are
	// folders that they come from, else they come from the indexes.
	Packages         bool
	Wheels, Tarballs string
}

// Row is one figure. Times are in milliseconds.
type Row struct {
	Name  string  `json:"name"`
	Calls int     `json:"calls"`
	Least float64 `json:"least_ms"`
	P50   float64 `json:"p50_ms"`
	P99   float64 `json:"p99_ms"`
	// GoalP50 and GoalP99 are 0 where there is no goal.
	GoalP50 float64 `json:"goal_p50_ms,omitempty"`
	GoalP99 float64 `json:"goal_p99_ms,omitempty"`
}

// Met reports whether the goals are met; it is meaningless without one.
func (r Row) Met() bool {
	return (r.GoalP50 == 0 || r.P50 <= r.GoalP50) && (r.GoalP99 == 0 || r.P99 <= r.GoalP99)
}

// Report is the result of a benchmark.
type Report struct {
	Rows []Row `json:"rows"`
	// Skipped describes what was not measured, and why.
	Skipped []string `json:"skipped,omitempty"`
}

// benchmark is one run.
type benchmark struct {
	Room
	o        Options
	progress func(string)
	report   Report
}

// Run measures, and calls progress with a description of each step.
func Run(ctx context.Context, r Room, o Options, progress func(string)) (Report, error) {
	b := &benchmark{Room: r, o: o, progress: progress}
	for _, part := range []struct {
		language string
		packages bool
		measure  func(context.Context) error
	}{
		{"python", false, b.python},
		{"python", true, b.pythonPackages},
		{"javascript", false, b.javascript},
		{"javascript", true, b.nodePackages},
	} {
		if len(o.Only) > 0 && !slices.Contains(o.Only, part.language) || part.packages && !o.Packages {
			continue
		}
		if err := part.measure(ctx); err != nil {
			return b.report, err
		}
	}
	return b.report, nil
}

// goal is the goal of a figure, in milliseconds.
type goal struct{ p50, p99 float64 }

// measure adds a figure: the times of n operations, after a few that are not measured. It waits
// for pause before each.
func (b *benchmark) measure(ctx context.Context, name string, n int, pause time.Duration, g goal, do func() error) error {
	const first = 3
	b.progress(name)
	var took []float64
	for i := range n + first {
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return ctx.Err()
		}
		began := time.Now()
		if err := do(); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if i >= first {
			took = append(took, float64(time.Since(began).Microseconds())/1000)
		}
	}
	slices.Sort(took)
	b.report.Rows = append(b.report.Rows, Row{Name: name, Calls: n, Least: took[0], P50: took[(len(took)-1)/2], P99: took[(len(took)-1)*99/100], GoalP50: g.p50, GoalP99: g.p99})
	return nil
}

// tool returns an operation that calls a tool. The value must be want, which shows that the
// tool's state was fresh.
func (b *benchmark) tool(ctx context.Context, id, arguments, want string) func() error {
	return func() error {
		r := b.Call(ctx, id, arguments)
		if r.Error != nil {
			return r.Error
		}
		if string(r.Value) != want {
			return fmt.Errorf("its value is %s, and with a fresh state %s", r.Value, want)
		}
		return nil
	}
}

// engineOnly returns an operation that runs a program directly on an engine.
func (b *benchmark) engineOnly(ctx context.Context, name, language, source string, layer engine.Layer) func() error {
	e := b.Engine(name)
	if e == nil {
		return func() error { return fmt.Errorf("there is no engine %s", name) }
	}
	job := engine.Job{Run: "bench", Owner: "bench", Layer: layer, Program: bridge.Program{
		Language: language, Name: "bench", Source: source, Limits: bridge.Limits{Wall: 30_000},
	}}
	return func() error {
		result, err := e.Run(ctx, job, silentHandler{})
		if err == nil && result.Outcome.Failure != nil {
			return result.Outcome.Failure
		}
		return err
	}
}

// silentHandler is the call handler of a program that calls no tools. It ignores output.
type silentHandler struct{ bridge.Handler }

func (silentHandler) Print(string, string)              {}
func (silentHandler) Progress(float64, float64, string) {}
func (silentHandler) Log(string, string, bridge.Map)    {}
