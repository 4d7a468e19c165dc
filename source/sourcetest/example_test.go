package sourcetest_test

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/source"
	"github.com/toolroom/toolroom/source/sourcetest"
)

// lamp is a source with one tool, which can fail.
type lamp struct {
	namespace string
	closed    atomic.Bool
}

func (l *lamp) Tools(ctx context.Context) ([]toolroom.Tool, error) {
	id := toolroom.ID{Namespace: l.namespace, Name: "switch"}
	return []toolroom.Tool{{ID: id, Source: "lamp", InputSchema: []byte(`{"type": "object"}`)}}, ctx.Err()
}

func (l *lamp) Call(ctx context.Context, r *source.Request) (*source.Output, error) {
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	if l.closed.Load() {
		return nil, toolroom.Errorf(toolroom.CodeUpstreamUnavailable, "the source is closed")
	}
	if r.Tool != (toolroom.ID{Namespace: l.namespace, Name: "switch"}) {
		return nil, toolroom.Errorf(toolroom.CodeToolNotFound, "there is no tool %s", r.Tool)
	}
	if string(r.Arguments) != `{"on": true}` {
		return &source.Output{Failed: true, Content: []toolroom.Content{{Type: toolroom.ContentText, Text: "the lamp is broken"}}}, nil
	}
	return &source.Output{Value: []byte(`"on"`)}, nil
}

func (l *lamp) Close() error {
	l.closed.Store(true)
	return nil
}

// In a package of your own, this is func TestLamp(t *testing.T).
func testLamp(t *testing.T) {
	sourcetest.Run(t, sourcetest.Config{
		Open:      func(*testing.T) source.Source { return &lamp{namespace: "lamp"} },
		Namespace: "lamp",
		Good:      sourcetest.Call{Tool: "switch", Arguments: `{"on": true}`, Want: `"on"`},
		Failing:   sourcetest.Call{Tool: "switch", Arguments: `{"on": false}`},
		Skip:      sourcetest.Skip{Slow: "switching is done at once"},
	})
}

// A source is accepted if it passes the suite.
func Example() {
	_ = testLamp
}
