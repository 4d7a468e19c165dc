package extend

import (
	"context"
	"strings"
	"time"

	"github.com/toolroom/toolroom/bridge"
	"github.com/toolroom/toolroom/internal/engine"
	"github.com/toolroom/toolroom/sandbox"
)

// Lines is an engine of one language: a program is a list of tool ids, one a
// line, which are called one after the other without arguments.
type Lines struct{}

// Name returns the engine's name, which --engine takes.
func (Lines) Name() string { return "lines" }

// Languages returns the languages that the engine runs.
func (Lines) Languages() []string { return []string{"lines"} }

// Probe reports what this engine can do on this machine.
func (Lines) Probe(context.Context) sandbox.Probe {
	return sandbox.Probe{State: sandbox.Available, Isolation: "none", Holds: map[sandbox.Limit]string{sandbox.LimitWall: "context"}}
}

// Run runs one program. Its value is the list of the results.
func (Lines) Run(ctx context.Context, j engine.Job, h bridge.Handler) (*engine.Result, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, time.Duration(j.Program.Limits.Wall)*time.Millisecond, engine.ErrWall)
	defer cancel()
	result := &engine.Result{Engine: "lines", Isolation: "none"}
	var values []bridge.Value
	for _, id := range strings.Fields(j.Program.Source) {
		value, err := h.Call(ctx, id, nil)
		if err != nil {
			result.Outcome.Failure = &bridge.Failure{Kind: bridge.FailProgram, Type: "ToolError", Message: err.Error()}
			break
		}
		values = append(values, value)
	}
	result.Outcome.Value = values
	return result, engine.Stopped(ctx)
}

// Close does nothing, because the engine has started nothing.
func (Lines) Close() error { return nil }
