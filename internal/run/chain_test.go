package run_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/source"
)

func chainBench(t *testing.T) *bench {
	b := newBench(t)
	b.add(tool("make:list"), value(`{"items":[3,4],"id":9007199254740993}`))
	b.add(tool("echo:it"), func(_ context.Context, req *source.Request) (*source.Output, error) {
		return &source.Output{Value: req.Arguments}, nil
	})
	b.add(tool("fail:it"), func(context.Context, *source.Request) (*source.Output, error) {
		return &source.Output{Failed: true, Content: []toolroom.Content{toolroom.TextContent("no")}}, nil
	})
	return b
}

func TestChains(t *testing.T) {
	t.Parallel()
	args := func(s string) json.RawMessage { return json.RawMessage(s) }
	for _, c := range []struct {
		name   string
		steps  []toolroom.Step
		value  string
		failed int // -1: none
		code   toolroom.Code
		done   int
	}{
		{name: "an empty chain is ok and has no value", failed: -1},
		{
			name:  "the first step's previous is null",
			steps: []toolroom.Step{{Tool: "echo:it", UsePrevious: true}},
			value: `{"previous":null}`, failed: -1, done: 1,
		},
		{
			name:  "previous overwrites the argument of that name",
			steps: []toolroom.Step{{Tool: "echo:it", Arguments: args(`{"n":1}`)}, {Tool: "echo:it", Arguments: args(`{"previous":0,"k":2}`), UsePrevious: true}},
			value: `{"k":2,"previous":{"n":1}}`, failed: -1, done: 2,
		},
		{
			name:  "a mapping picks from previous and from steps, large integers exact",
			steps: []toolroom.Step{{Tool: "make:list"}, {Tool: "echo:it", Map: map[string]string{"x": "previous.items[1] + 1", "id": "steps[0].id"}}},
			value: `{"id":9007199254740993,"x":5}`, failed: -1, done: 2,
		},
		{
			name:  "a false condition skips and keeps previous",
			steps: []toolroom.Step{{Tool: "make:list"}, {Tool: "fail:it", If: "len(previous.items) > 2"}, {Tool: "echo:it", Map: map[string]string{"n": "len(previous.items)"}}},
			value: `{"n":2}`, failed: -1, done: 3,
		},
		{
			name:  "a skipped step has its place in steps",
			steps: []toolroom.Step{{Tool: "make:list"}, {Tool: "fail:it", If: "false"}, {Tool: "make:list"}, {Tool: "echo:it", Map: map[string]string{"none": "steps[1] == nil", "id": "steps[2].id"}}},
			value: `{"id":9007199254740993,"none":true}`, failed: -1, done: 4,
		},
		{
			name:  "the first failure ends the chain with what there is",
			steps: []toolroom.Step{{Tool: "make:list"}, {Tool: "fail:it"}, {Tool: "echo:it"}},
			value: `{"items":[3,4],"id":9007199254740993}`, failed: 1, code: toolroom.CodeExecutionFailed, done: 2,
		},
		{
			name:  "a step may go on after its failure",
			steps: []toolroom.Step{{Tool: "fail:it", ContinueOnError: true}, {Tool: "echo:it", UsePrevious: true}},
			value: `{"previous":null}`, failed: -1, done: 2,
		},
		{
			name:  "after a failure previous is null",
			steps: []toolroom.Step{{Tool: "make:list"}, {Tool: "fail:it", ContinueOnError: true}, {Tool: "echo:it", UsePrevious: true}},
			value: `{"previous":null}`, failed: -1, done: 3,
		},
		{
			name:   "a mistake in an expression is found before anything runs",
			steps:  []toolroom.Step{{Tool: "make:list"}, {Tool: "echo:it", If: "previous.("}},
			failed: 1, code: toolroom.CodeInvalidArguments, done: 0,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := chainBench(t).Chain(t.Context(), toolroom.Call{Surface: "chain"}, c.steps)
			if string(r.Value) != c.value || len(r.Steps) != c.done {
				t.Errorf("value %s after %d steps, want %s after %d", r.Value, len(r.Steps), c.value, c.done)
			}
			switch {
			case c.failed < 0 && (r.Failed != nil || r.Status != toolroom.StatusOK):
				t.Errorf("failed: %+v", r.Error)
			case c.failed >= 0 && (r.Failed == nil || *r.Failed != c.failed || r.Error.Code != c.code || !strings.Contains(r.Error.Message, "step 2")):
				t.Errorf("got failed %v, error %+v", r.Failed, r.Error)
			}
		})
	}
}

// A chain that must fail at a later step changes nothing: its first step does not run. The
// call that could not be made leaves a receipt, as it does outside of chains.
func TestAChainChecksItsStepsBeforeTheFirstRuns(t *testing.T) {
	t.Parallel()
	typed := tool("typed:it")
	typed.InputSchema = json.RawMessage(`{"type":"object","properties":{"count":{"type":"integer"}},"required":["count"]}`)
	for _, c := range []struct {
		name     string
		step     toolroom.Step
		code     toolroom.Code
		done     int
		receipts int
	}{
		{name: "an unknown tool", step: toolroom.Step{Tool: "echo:that"}, code: toolroom.CodeToolNotFound, receipts: 1},
		{name: "arguments that do not fit", step: toolroom.Step{Tool: "typed:it", Arguments: json.RawMessage(`{"count":"x"}`)}, code: toolroom.CodeInvalidArguments, receipts: 1},
		{name: "arguments that are no object", step: toolroom.Step{Tool: "typed:it", Arguments: json.RawMessage(`[]`)}, code: toolroom.CodeInvalidArguments, receipts: 1},
		{name: "arguments not known yet", step: toolroom.Step{Tool: "typed:it", Map: map[string]string{"count": "'x'"}}, code: toolroom.CodeInvalidArguments, done: 2, receipts: 2},
		{name: "a step that may fail", step: toolroom.Step{Tool: "echo:that", ContinueOnError: true}, done: 2, receipts: 2},
		{name: "a step that is skipped", step: toolroom.Step{Tool: "echo:that", If: "false"}, done: 2, receipts: 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := chainBench(t)
			b.add(typed, value(`1`))
			r := b.Chain(t.Context(), toolroom.Call{Surface: "chain"}, []toolroom.Step{{Tool: "make:list"}, c.step})
			if len(r.Steps) != c.done {
				t.Errorf("%d steps ran, want %d", len(r.Steps), c.done)
			}
			if (r.Error != nil) != (c.code != "") || r.Error != nil && (r.Error.Code != c.code || *r.Failed != 1 || !strings.Contains(r.Error.Message, "step 2")) {
				t.Errorf("got %+v, want %s", r.Error, c.code)
			}
			if got := len(b.receipts.list); got != c.receipts {
				t.Errorf("%d receipts, want %d", got, c.receipts)
			}
		})
	}
}

// A tool's own chain names neither caller nor environment: it has those of the tool's call.
func TestAToolsChainIsCheckedAsItsStepsAreCalled(t *testing.T) {
	t.Parallel()
	b := chainBench(t)
	b.add(tool("released:it"), value(`1`))
	served, err := b.Lookup(&toolroom.Call{Tool: "released:it"})
	if err != nil {
		t.Fatal(err)
	}
	b.Releases = versions{served}
	b.add(tool("outer:it"), func(ctx context.Context, _ *source.Request) (*source.Output, error) {
		r := b.Chain(ctx, toolroom.Call{}, []toolroom.Step{{Tool: "make:list"}, {Tool: "released:it"}})
		if r.Error != nil {
			return nil, r.Error
		}
		return &source.Output{Value: r.Value}, nil
	})
	for environment, works := range map[string]bool{"test": true, "prod": false} {
		if r := b.Run(t.Context(), toolroom.Call{Tool: "outer:it", Environment: environment}); (r.Error == nil) != works {
			t.Errorf("in %s: %v", environment, r.Error)
		}
	}
}

func TestExpressionsOfAChainAreBounded(t *testing.T) {
	t.Parallel()
	second := func(s toolroom.Step) []toolroom.Step {
		s.Tool = "echo:it"
		return []toolroom.Step{{Tool: "make:list"}, s}
	}
	mapping := func(text string) []toolroom.Step { return second(toolroom.Step{Map: map[string]string{"x": text}}) }
	many := func() []toolroom.Step {
		s := toolroom.Step{Map: map[string]string{}}
		for i := range 2000 {
			s.Map[fmt.Sprint(i)] = "1"
		}
		return second(s)
	}
	for name, c := range map[string]struct {
		steps []toolroom.Step
		code  toolroom.Code
		done  int
	}{
		"a condition of brackets": {second(toolroom.Step{If: strings.Repeat("(", 500_000)}), toolroom.CodeInvalidArguments, 0},
		"a mapping of brackets":   {mapping(strings.Repeat("[", 3_000_000)), toolroom.CodeInvalidArguments, 0},
		"many mappings":           {many(), toolroom.CodeInvalidArguments, 0},
		"a doubled string":        {mapping(`reduce(1..40, #acc + #acc, "xxxxxxxxxx")`), toolroom.CodeResourceLimit, 1},
		"a string that grows":     {mapping(`reduce(1..400000, #acc + "xx", "")`), toolroom.CodeResourceLimit, 1},
		"a condition of work":     {second(toolroom.Step{If: `reduce(1..40, #acc + #acc, "xxxxxxxxxx") == ""`}), toolroom.CodeResourceLimit, 1},
		"steps add up": {append(second(toolroom.Step{Map: map[string]string{"x": `len(repeat("x", 1000000))`}}), slices.Repeat([]toolroom.Step{{Tool: "echo:it", Map: map[string]string{
			"a": `len(repeat("x", 1000000))`, "b": `len(repeat("y", 1000000))`,
		}}}, 60)...), toolroom.CodeResourceLimit, 18},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := chainBench(t).Chain(t.Context(), toolroom.Call{Surface: "chain"}, c.steps)
			if r.Error == nil || r.Error.Code != c.code || len(r.Steps) != c.done {
				t.Fatalf("after %d steps: %+v", len(r.Steps), r.Error)
			}
			if len(r.Error.Message) > 1000 {
				t.Errorf("the error has %d bytes", len(r.Error.Message))
			}
		})
	}
}
