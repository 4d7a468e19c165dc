package run

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/vm"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/jsonx"
)

// Step is one call of a chain.
type Step struct {
	Tool      string          `json:"tool"`
	Arguments json.RawMessage `json:"arguments,omitempty"`
	// UsePrevious puts the value of the step before into the argument
	// "previous"; for the first step it is null.
	UsePrevious bool `json:"use_previous,omitempty"`
	// Map sets arguments from Expr expressions over previous (the value of the
	// step before) and steps (the values of all steps before).
	Map map[string]string `json:"map,omitempty"`
	// If is an Expr condition over the same; a step whose condition is false is
	// skipped, and previous stays what it was.
	If string `json:"if,omitempty"`
	// Retry repeats a failed step so many times, whatever its guarantee: the
	// author of the chain says that this is right.
	Retry int `json:"retry,omitempty"`
	// ContinueOnError goes on after a failure, with previous as null.
	ContinueOnError bool          `json:"continue_on_error,omitempty"`
	Timeout         time.Duration `json:"timeout,omitempty"`
}

// ChainResult is the outcome of a chain.
type ChainResult struct {
	Status toolroom.Status `json:"status"`
	// Value is the value of the last step that ran.
	Value json.RawMessage `json:"value,omitempty"`
	Steps []StepResult    `json:"steps"`
	// Failed is the index of the step that ended the chain, and Error its cause.
	Failed *int            `json:"failed,omitempty"`
	Error  *toolroom.Error `json:"error,omitempty"`
}

// StepResult is what became of one step. Result is nil for a skipped one.
type StepResult struct {
	Tool    string           `json:"tool"`
	Skipped bool             `json:"skipped,omitempty"`
	Result  *toolroom.Result `json:"result,omitempty"`
}

// MaxChainSteps bounds a chain.
const MaxChainSteps = 100

// retryPause is the first pause between tries of a step; it doubles.
const retryPause = 100 * time.Millisecond

// Chain runs steps one after the other as the given caller. It stops at the
// first failure, with the results so far. An empty chain is ok and has no
// value. Mistakes in expressions are found before anything runs.
func (r *Runner) Chain(ctx context.Context, as toolroom.Call, steps []Step) *ChainResult {
	return r.ChainOf(ctx, as, steps, r.Run)
}

// ChainOf is Chain with another way to make a call, which itself comes to Run.
func (r *Runner) ChainOf(ctx context.Context, as toolroom.Call, steps []Step, run func(context.Context, toolroom.Call) *toolroom.Result) *ChainResult {
	ctx = WithReach(ctx)
	return ChainThrough(as, steps, func(call toolroom.Call, retries int) *toolroom.Result { return try(ctx, call, retries, run) })
}

// ChainThrough is [Runner.Chain] where do makes the calls, each with the
// number of times that its author lets it be repeated. It asks no clock and has
// no state, so a workflow can run it again.
func ChainThrough(as toolroom.Call, steps []Step, do func(call toolroom.Call, retries int) *toolroom.Result) *ChainResult {
	out := &ChainResult{Status: toolroom.StatusOK, Steps: make([]StepResult, 0, len(steps))}
	fail := func(i int, err error) *ChainResult {
		e := *toolroom.AsError(err)
		if i < len(steps) {
			e.Message = fmt.Sprintf("step %d (%s): %s", i+1, steps[i].Tool, e.Message)
		}
		out.Status, out.Error, out.Failed = e.Code.Info().Status, &e, &i
		return out
	}
	if len(steps) > MaxChainSteps {
		return fail(len(steps), toolroom.Errorf(toolroom.CodeInvalidArguments, "the chain has %d steps; at most %d are allowed", len(steps), MaxChainSteps))
	}
	programs := make([]stepPrograms, len(steps))
	for i, step := range steps {
		var err error
		if programs[i], err = compileStep(step); err != nil {
			return fail(i, err)
		}
	}

	env := chainEnv{Steps: make([]any, 0, len(steps))}
	for i, step := range steps {
		due, err := programs[i].condition(env)
		if err != nil {
			return fail(i, err)
		}
		if !due {
			out.Steps = append(out.Steps, StepResult{Tool: step.Tool, Skipped: true})
			env.Steps = append(env.Steps, nil)
			continue
		}
		call := as
		call.ID, call.Tool, call.MaxOutput = "", step.Tool, -1
		if step.Timeout > 0 {
			call.Timeout = step.Timeout
		}
		if call.Arguments, err = programs[i].arguments(step, env); err != nil {
			return fail(i, err)
		}
		result := do(call, step.Retry)
		out.Steps = append(out.Steps, StepResult{Tool: step.Tool, Result: result})
		env.Previous = nil
		if result.Error == nil {
			if env.Previous, err = native(result.Value); err != nil {
				return fail(i, err)
			}
			out.Value = result.Value
		} else if !step.ContinueOnError {
			return fail(i, result.Error)
		}
		env.Steps = append(env.Steps, env.Previous)
	}
	return out
}

func try(ctx context.Context, call toolroom.Call, retries int, run func(context.Context, toolroom.Call) *toolroom.Result) *toolroom.Result {
	pause := retryPause
	for {
		result := run(ctx, call)
		if result.Error == nil || retries <= 0 || result.Status == toolroom.StatusDenied || ctx.Err() != nil {
			return result
		}
		retries--
		select {
		case <-time.After(pause):
			pause *= 2
		case <-ctx.Done():
			return result
		}
	}
}

// chainEnv is what the expressions of a step see.
type chainEnv struct {
	Previous any   `expr:"previous"`
	Steps    []any `expr:"steps"`
}

type stepPrograms struct {
	when *vm.Program
	set  map[string]*vm.Program
}

func compileStep(s Step) (stepPrograms, error) {
	p := stepPrograms{set: map[string]*vm.Program{}}
	compile := func(what, text string, options ...expr.Option) (*vm.Program, error) {
		program, err := expr.Compile(text, append(options, expr.Env(chainEnv{}))...)
		if err != nil {
			return nil, toolroom.Errorf(toolroom.CodeInvalidArguments, "%s %q cannot be read: %w", what, text, err).
				WithHint("an expression sees previous and steps, for example previous.count > 0")
		}
		return program, nil
	}
	var err error
	if s.If != "" {
		if p.when, err = compile("the condition", s.If, expr.AsBool()); err != nil {
			return p, err
		}
	}
	for name, text := range s.Map {
		if p.set[name], err = compile("the mapping of "+name, text); err != nil {
			return p, err
		}
	}
	return p, nil
}

func (p stepPrograms) condition(env chainEnv) (bool, error) {
	if p.when == nil {
		return true, nil
	}
	v, err := expr.Run(p.when, env)
	if err != nil {
		return false, toolroom.Errorf(toolroom.CodeInvalidArguments, "its condition failed: %w", err)
	}
	return v == true, nil
}

func (p stepPrograms) arguments(s Step, env chainEnv) (json.RawMessage, error) {
	if !s.UsePrevious && len(p.set) == 0 {
		return s.Arguments, nil
	}
	args := map[string]any{}
	if len(s.Arguments) > 0 {
		doc, err := jsonx.Decode(s.Arguments, jsonx.Limits{})
		object, ok := doc.(map[string]any)
		if err != nil || !ok {
			return nil, toolroom.Errorf(toolroom.CodeInvalidArguments, "its arguments are not a JSON object")
		}
		args = object
	}
	if s.UsePrevious {
		args["previous"] = env.Previous
	}
	for name, program := range p.set {
		v, err := expr.Run(program, env)
		if err != nil {
			return nil, toolroom.Errorf(toolroom.CodeInvalidArguments, "the mapping of %s failed: %w", name, err)
		}
		args[name] = v
	}
	return jsonx.Marshal(args)
}

// native decodes a value for expressions.
func native(value json.RawMessage) (any, error) {
	if len(value) == 0 {
		return nil, nil
	}
	doc, err := jsonx.Decode(value, jsonx.Limits{Bytes: maxOutputDocument})
	if err != nil {
		return nil, err
	}
	return jsonx.Native(doc), nil
}
