package gofunc_test

import (
	"context"
	"encoding/json"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/source/gofunc"
	"github.com/toolroom/toolroom/source"
	"github.com/toolroom/toolroom/source/sourcetest"
)

func TestTheContractOfSources(t *testing.T) {
	t.Parallel()
	var running atomic.Int64
	sourcetest.Run(t, sourcetest.Config{
		Namespace: "math",
		Open: func(t *testing.T) source.Source {
			s := &gofunc.Source{}
			add(t, s, "math:add", func(_ context.Context, in struct{ A, B int }) (int, error) { return in.A + in.B, nil })
			add(t, s, "math:fail", func(context.Context, struct{}) (*source.Output, error) {
				return &source.Output{Failed: true, Content: []toolroom.Content{toolroom.TextContent("no")}}, nil
			})
			add(t, s, "math:slow", func(ctx context.Context, _ struct{}) (any, error) {
				running.Add(1)
				defer running.Add(-1)
				<-ctx.Done()
				return nil, ctx.Err()
			})
			return s
		},
		Good:    sourcetest.Call{Tool: "add", Arguments: `{"A": 2, "B": 3}`, Want: `5`},
		Failing: sourcetest.Call{Tool: "fail", Arguments: `{}`},
		Slow:    sourcetest.Call{Tool: "slow", Arguments: `{}`},
		Running: func() int { return int(running.Load()) },
	})
}

func add[In, Out any](t *testing.T, s *gofunc.Source, id string, f func(context.Context, In) (Out, error)) {
	t.Helper()
	wrapped, err := gofunc.New(toolroom.Tool{ID: toolroom.MustParseID(id)}, f)
	if err != nil {
		t.Fatal(err)
	}
	s.Put(wrapped)
}

func TestSchemasAreInferredFromTheTypes(t *testing.T) {
	t.Parallel()
	type order struct {
		Item   string   `json:"item" jsonschema:"what to order"`
		Count  int      `json:"count,omitempty"`
		Labels []string `json:"labels,omitempty"`
	}
	f, err := gofunc.New(toolroom.Tool{ID: toolroom.MustParseID("shop:order")}, func(context.Context, order) (map[string]int, error) { return nil, errors.New("closed") })
	if err != nil {
		t.Fatal(err)
	}
	var in struct {
		Type       string
		Required   []string
		Properties map[string]struct{ Description string }
	}
	if err := json.Unmarshal(f.Tool.InputSchema, &in); err != nil {
		t.Fatal(err)
	}
	if in.Type != "object" || len(in.Required) != 1 || in.Required[0] != "item" || in.Properties["item"].Description != "what to order" {
		t.Errorf("the input schema is %s", f.Tool.InputSchema)
	}
	if len(f.Tool.OutputSchema) == 0 {
		t.Error("a map has no output schema")
	}
	if _, err := gofunc.New(toolroom.Tool{ID: toolroom.MustParseID("shop:bad")}, func(context.Context, chan int) (any, error) { return nil, nil }); toolroom.CodeOf(err) != toolroom.CodeInvalidArguments {
		t.Errorf("a channel as arguments: %v", err)
	}
}
