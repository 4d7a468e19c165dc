package extend

import (
	"context"
	"encoding/json"
	"sync/atomic"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/source"
)

// Greeter is a source with one tool, hello.
type Greeter struct {
	Namespace string
	closed    atomic.Bool
}

// Tools lists the tools of the source.
func (g *Greeter) Tools(ctx context.Context) ([]toolroom.Tool, error) {
	return []toolroom.Tool{{
		ID: toolroom.ID{Namespace: g.Namespace, Name: "hello"}, Source: toolroom.SourceGo, Description: "Greet somebody by name.",
		InputSchema: json.RawMessage(`{"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}`),
	}}, ctx.Err()
}

// Call runs one tool. Policy, limits and the schema have been checked.
func (g *Greeter) Call(ctx context.Context, req *source.Request) (*source.Output, error) {
	switch {
	case ctx.Err() != nil:
		return nil, toolroom.AsError(ctx.Err())
	case g.closed.Load():
		return nil, toolroom.Errorf(toolroom.CodeUpstreamUnavailable, "the source %s is closed", g.Namespace)
	case req.Tool.Name != "hello":
		return nil, toolroom.Errorf(toolroom.CodeToolNotFound, "there is no tool %s", req.Tool)
	}
	var in struct{ Name string }
	if err := json.Unmarshal(req.Arguments, &in); err != nil {
		return nil, err
	}
	value, err := json.Marshal("Hello, " + in.Name)
	return &source.Output{Value: value}, err
}

// Close closes the source. Calls fail from then on.
func (g *Greeter) Close() error {
	g.closed.Store(true)
	return nil
}
