package run

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/expression"
	"github.com/toolroom/toolroom/internal/jsonx"
)

// MaxChainSteps is the largest number of steps of a chain.
const MaxChainSteps = 100

// retryPause is the first pause between the attempts of a step. It doubles each time.
const retryPause = 100 * time.Millisecond

// Chain runs steps one after the other, as the caller in as. It stops at the first failure
// and returns the results so far. An empty chain succeeds without a value. Mistakes in
// expressions are found before the first step runs.
//
// Nothing runs if the chain is longer than its budget, or if a step that will certainly run
// names a tool that is not there or has arguments that do not fit.
func (r *Runner) Chain(ctx context.Context, as toolroom.Call, steps []toolroom.Step) *toolroom.ChainResult {
	if len(steps) <= MaxChainSteps {
		counted, all := r.reserve(ctx, as.Budget, len(steps))
		defer all.release()
		if all.err != nil {
			return RefusedChain(all.err)
		}
		ctx = counted
		if i, err := r.checkSteps(ctx, as, steps); err != nil {
			refused := r.Refuse(ctx, callOfStep(as, steps[i]), err)
			out := &toolroom.ChainResult{Steps: []toolroom.StepResult{}}
			failChain(out, steps, i, refused.Error)
			return out
		}
	}
	return r.ChainWith(ctx, as, steps, r.Run)
}

// checkSteps returns the first step whose call cannot succeed, and why. It skips the first
// step, whose call finds its own mistakes, and steps that may be skipped or may fail.
// Arguments that depend on earlier steps are not known yet, so they are not checked; those of tools
// that the caller may not call at all are not either, because the error would describe them.
func (r *Runner) checkSteps(ctx context.Context, as toolroom.Call, steps []toolroom.Step) (int, error) {
	for i, step := range steps {
		if i == 0 || step.If != "" || step.ContinueOnError {
			continue
		}
		found, err := r.begin(ctx, callOfStep(as, step)).resolve()
		if err == nil && !step.UsePrevious && len(step.Map) == 0 && found.mayBeAllowed() {
			err = found.validateInput()
		}
		if err != nil {
			return i, err
		}
	}
	return 0, nil
}

// callOfStep returns the call of a step whose arguments do not depend on earlier steps.
func callOfStep(as toolroom.Call, step toolroom.Step) toolroom.Call {
	as.ID, as.Tool, as.Arguments, as.MaxOutput = "", step.Tool, step.Arguments, -1
	if step.Timeout != 0 {
		as.Timeout = step.Timeout
	}
	return as
}

// failChain records that step i ended the chain with err. If i is len(steps), the chain as a
// whole failed.
func failChain(out *toolroom.ChainResult, steps []toolroom.Step, i int, err error) {
	e := *toolroom.AsError(err)
	if i < len(steps) {
		e.Message = fmt.Sprintf("step %d (%s): %s", i+1, steps[i].Tool, e.Message)
	}
	out.Status, out.Error, out.Failed = e.Code.Info().Status, &e, &i
}

// RefusedChain returns the outcome of a chain that was refused before its first step.
func RefusedChain(err error) *toolroom.ChainResult {
	e, first := *toolroom.AsError(err), 0
	return &toolroom.ChainResult{Status: e.Code.Info().Status, Steps: []toolroom.StepResult{}, Error: &e, Failed: &first}
}

// ChainWith is like Chain, but makes the calls with run in place of [Runner.Run]. The caller
// must take them from the budget itself.
func (r *Runner) ChainWith(ctx context.Context, as toolroom.Call, steps []toolroom.Step, run func(context.Context, toolroom.Call) *toolroom.Result) *toolroom.ChainResult {
	ctx = WithSharedTaint(ctx)
	return RunSteps(ctx, as, steps, func(call toolroom.Call, retries int) *toolroom.Result { return runWithRetries(ctx, call, retries, run) })
}

// RunSteps runs a chain and makes each call with do; retries is the Retry of the step. ctx
// stops the evaluation of expressions. RunSteps reads no clock and has no state, so a workflow
// can replay it.
func RunSteps(ctx context.Context, as toolroom.Call, steps []toolroom.Step, do func(call toolroom.Call, retries int) *toolroom.Result) *toolroom.ChainResult {
	out := &toolroom.ChainResult{Status: toolroom.StatusOK, Steps: make([]toolroom.StepResult, 0, len(steps))}
	fail := func(i int, err error) *toolroom.ChainResult {
		failChain(out, steps, i, err)
		return out
	}
	if len(steps) > MaxChainSteps {
		return fail(len(steps), toolroom.Errorf(toolroom.CodeInvalidArguments, "the chain has %d steps; at most %d are allowed", len(steps), MaxChainSteps))
	}
	if err := checkExpressions(steps); err != nil {
		return fail(len(steps), err)
	}
	programs := make([]stepPrograms, len(steps))
	for i, step := range steps {
		var err error
		if programs[i], err = compileStep(step); err != nil {
			return fail(i, err)
		}
	}

	env := chainEnv{ctx: ctx, Steps: make([]any, 0, len(steps))}
	for i, step := range steps {
		due, err := programs[i].condition(&env)
		if err != nil {
			return fail(i, err)
		}
		if !due {
			out.Steps = append(out.Steps, toolroom.StepResult{Tool: step.Tool, Skipped: true})
			env.Steps = append(env.Steps, nil)
			continue
		}
		call := callOfStep(as, step)
		if call.Arguments, err = programs[i].arguments(step, &env); err != nil {
			return fail(i, err)
		}
		result := do(call, step.Retry)
		out.Steps = append(out.Steps, toolroom.StepResult{Tool: step.Tool, Result: result})
		env.Previous = nil
		if result.Error == nil {
			if env.Previous, err = toNative(result.Value); err != nil {
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

// runWithRetries makes a call again while it fails and retries are left. It does not repeat a
// call that was denied or is beyond its budget.
func runWithRetries(ctx context.Context, call toolroom.Call, retries int, run func(context.Context, toolroom.Call) *toolroom.Result) *toolroom.Result {
	pause := retryPause
	for {
		result := run(ctx, call)
		if result.Error == nil || retries <= 0 || result.Status == toolroom.StatusDenied || result.Error.Code == toolroom.CodeBudgetExceeded || ctx.Err() != nil {
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

// Limits on the expressions of a chain: their number, and their total length in bytes.
const (
	maxExpressions    = 1000
	maxExpressionText = 64 << 10
)

func checkExpressions(steps []toolroom.Step) error {
	count, bytes := 0, 0
	for _, step := range steps {
		count += len(step.Map)
		bytes += len(step.If)
		for _, text := range step.Map {
			bytes += len(text)
		}
	}
	if count > maxExpressions || bytes > maxExpressionText {
		return toolroom.Errorf(toolroom.CodeInvalidArguments, "the chain has %d mappings, and expressions of %d bytes; at most %d and %d are allowed", count, bytes, maxExpressions, maxExpressionText).
			WithHint("pass data in arguments, and do what takes long in a program (code:execute)")
	}
	return nil
}

// chainEnv holds the variables of a chain's expressions, and the limits on their work.
type chainEnv struct {
	Previous any
	Steps    []any

	ctx   context.Context //nolint:containedctx // it is the chain's
	meter expression.Meter
}

// evaluate evaluates an expression. what names it in errors.
func (e *chainEnv) evaluate(p *expression.Program, what string) (any, error) {
	v, err := p.Run(e.ctx, &e.meter, map[string]any{"previous": e.Previous, "steps": e.Steps})
	switch {
	case err == nil:
		return v, nil
	case errors.Is(err, expression.ErrWork):
		return nil, toolroom.Errorf(toolroom.CodeResourceLimit, "%s was stopped: %w", what, err)
	case e.ctx.Err() != nil:
		return nil, context.Cause(e.ctx)
	}
	return nil, toolroom.Errorf(toolroom.CodeInvalidArguments, "%s failed: %w", what, err)
}

// stepPrograms are the compiled expressions of a step.
type stepPrograms struct {
	when *expression.Program
	set  map[string]*expression.Program
}

func compileStep(s toolroom.Step) (stepPrograms, error) {
	p := stepPrograms{set: map[string]*expression.Program{}}
	compile := func(what, text string, kind expression.Kind) (*expression.Program, error) {
		program, err := expression.Compile(text, kind, "previous", "steps")
		if err != nil {
			return nil, toolroom.Errorf(toolroom.CodeInvalidArguments, "%s %.200q cannot be read: %w", what, text, err).
				WithHint("an expression sees previous and steps, for example previous.count > 0")
		}
		return program, nil
	}
	var err error
	if s.If != "" {
		if p.when, err = compile("the condition", s.If, expression.Bool); err != nil {
			return p, err
		}
	}
	for name, text := range s.Map {
		if p.set[name], err = compile("the mapping of "+name, text, expression.Any); err != nil {
			return p, err
		}
	}
	return p, nil
}

func (p stepPrograms) condition(env *chainEnv) (bool, error) {
	if p.when == nil {
		return true, nil
	}
	v, err := env.evaluate(p.when, "its condition")
	return v == true, err
}

func (p stepPrograms) arguments(s toolroom.Step, env *chainEnv) (json.RawMessage, error) {
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
		v, err := env.evaluate(program, "the mapping of "+name)
		if err != nil {
			return nil, err
		}
		args[name] = v
	}
	return jsonx.Marshal(args)
}

// toNative decodes a value into the types that expressions use.
func toNative(value json.RawMessage) (any, error) {
	if len(value) == 0 {
		return nil, nil
	}
	doc, err := jsonx.Decode(value, jsonx.Limits{Bytes: maxOutputDocument})
	if err != nil {
		return nil, err
	}
	return jsonx.Native(doc), nil
}
