package sandboxtest

import (
	"context"
	"strings"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/bridge"
)

// listener is a host with two tools, math:add and echo:value, that keeps what a
// program prints.
type listener struct {
	stdout, stderr strings.Builder
}

func (l *listener) Call(_ context.Context, tool string, arguments bridge.Map) (bridge.Value, error) {
	switch tool {
	case "math:add":
		return arguments.Int("a") + arguments.Int("b"), nil
	case "echo:value":
		return arguments.Get("value"), nil
	}
	return nil, toolroom.Errorf(toolroom.CodeToolNotFound, "there is no tool %s", tool)
}

func (l *listener) Chain(context.Context, []bridge.Value) (bridge.Value, error) { return nil, nil }

func (l *listener) Search(context.Context, string, int) (bridge.Value, error) { return nil, nil }

func (l *listener) Describe(context.Context, string, string) (bridge.Value, error) { return nil, nil }

func (l *listener) Put(context.Context, string, string, []byte) (bridge.Handle, error) {
	return bridge.Handle{}, toolroom.Errorf(toolroom.CodeUnsupported, "no artifacts here")
}

func (l *listener) Get(context.Context, string, int64, int64) ([]byte, bridge.Handle, error) {
	return nil, bridge.Handle{}, toolroom.Errorf(toolroom.CodeUnsupported, "no artifacts here")
}

func (l *listener) Print(stream, text string) {
	if stream == "stderr" {
		l.stderr.WriteString(text)
		return
	}
	l.stdout.WriteString(text)
}

func (l *listener) Progress(float64, float64, string) {}
func (l *listener) Log(string, string, bridge.Map)    {}
