package source_test

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/source"
)

// echo returns its arguments, and knows that it does nothing.
type echo struct{}

var (
	_ source.Source    = echo{}
	_ source.Predictor = echo{}
)

func (echo) Tools(context.Context) ([]toolroom.Tool, error) {
	return []toolroom.Tool{{ID: toolroom.MustParseID("echo:say"), Description: "Say it again."}}, nil
}

func (echo) Call(_ context.Context, req *source.Request) (*source.Output, error) {
	return &source.Output{Value: req.Arguments}, nil
}

func (echo) Close() error { return nil }

func (echo) PredictEffects(*source.Request) ([]toolroom.Effect, string) {
	return []toolroom.Effect{{Kind: toolroom.EffectNone}}, ""
}

func (echo) Enforces(*source.Request, toolroom.Effect, []toolroom.Effect) bool { return false }

func (echo) Preview(_ context.Context, req *source.Request) (source.Preview, error) {
	return source.Preview{Effects: []string{"says " + string(req.Arguments)}}, nil
}

// logged wraps a source.
type logged struct{ source.Source }

func (l logged) Unwrap() source.Source { return l.Source }

// As finds a capability also behind a wrapper.
func ExampleAs() {
	p, ok := source.As[source.Predictor](logged{echo{}})
	preview, err := p.Preview(context.Background(), &source.Request{Arguments: json.RawMessage(`"hi"`)})
	fmt.Println(ok, preview.Effects, err)
	_, ok = source.As[source.Library](logged{echo{}})
	fmt.Println(ok)
	// Output:
	// true [says "hi"] <nil>
	// false
}

// guide offers one resource, and nothing else of a library.
type guide struct {
	echo
	source.NoLibrary
}

func (guide) Resources(context.Context) ([]source.Resource, error) {
	return []source.Resource{{URI: "guide://start", Name: "start"}}, nil
}

func (guide) ReadResource(_ context.Context, uri string, _ *source.Request) (json.RawMessage, error) {
	return json.RawMessage(`{"contents":[{"uri":"` + uri + `","text":"Begin here."}]}`), nil
}

func ExampleNoLibrary() {
	library, _ := source.As[source.Library](guide{})
	resources, err := library.Resources(context.Background())
	fmt.Println(len(resources), resources[0].URI, err)
	prompts, err := library.Prompts(context.Background())
	fmt.Println(len(prompts), err)
	// Output:
	// 1 guide://start <nil>
	// 0 <nil>
}

// A tool that needs an answer learns at once that the client gives none.
func ExampleElicit() {
	_, err := source.Elicit(context.Background(), source.NoAsker{}, "name", "What is your name?", json.RawMessage(`{"type":"object"}`))
	fmt.Println(toolroom.CodeOf(err), err)
	// Output: unsupported the client does not support elicitation/create
}
