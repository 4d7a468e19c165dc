package main

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/source"
)

// taskTools returns the tools for the tasks extension.
func taskTools() map[string]fixture {
	return map[string]fixture{
		"slow_compute": {
			description: "Takes as long as requested.", task: toolroom.TaskOptional, call: slowCompute,
			schema: `{"type":"object","properties":{"seconds":{"type":"number"},"label":{"type":"string"}}}`,
		},
		"failing_job": {description: "Fails after a moment.", task: toolroom.TaskRequired, call: func(ctx context.Context, _ *source.Request) (*source.Output, error) {
			if err := pause(ctx, time.Second); err != nil {
				return nil, err
			}
			return &source.Output{Failed: true, Content: []toolroom.Content{toolroom.TextContent("the job failed")}}, nil
		}},
		"protocol_error_job": {description: "Ends with an error of the server.", task: toolroom.TaskOptional, call: func(context.Context, *source.Request) (*source.Output, error) {
			return nil, toolroom.Errorf(toolroom.CodeInternal, "the server failed on this job")
		}},
		"confirm_delete": {
			description: "Asks before it deletes.", task: toolroom.TaskOptional, call: asks("Answer", map[string]source.Question{
				"confirm": elicit("Really delete?", `{"type":"object","properties":{"confirm":{"type":"boolean"}},"required":["confirm"]}`),
			}),
			schema: `{"type":"object","properties":{"filename":{"type":"string"}}}`,
		},
		"multi_input":         {description: "Asks two things at once.", task: toolroom.TaskOptional, call: twoAtOnce},
		"test_tool_with_task": {description: "Asks, then works as a task.", task: toolroom.TaskRequired, asksFirst: true, call: greetByName},
	}
}

func slowCompute(ctx context.Context, req *source.Request) (*source.Output, error) {
	var in struct {
		Seconds float64
		Label   string
	}
	if err := json.Unmarshal(req.Arguments, &in); err != nil {
		return nil, err
	}
	if err := pause(ctx, time.Duration(in.Seconds*float64(time.Second))); err != nil {
		return nil, err
	}
	return text("computed " + in.Label), nil
}

// twoAtOnce asks two questions concurrently.
func twoAtOnce(ctx context.Context, req *source.Request) (*source.Output, error) {
	var wg sync.WaitGroup
	var errs [2]error
	for i := range errs {
		wg.Go(func() {
			_, errs[i] = source.Elicit(ctx, req.Ask, fmt.Sprintf("input%d", i+1), "Your input?", json.RawMessage(nameForm))
		})
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	return text("both inputs came"), nil
}
