package sandboxtest

import (
	"context"
	"strings"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/bridge"
)

// handler is a call handler with two tools, math:add and echo:value, that records the
// output of a program.
type handler struct {
	stdout, stderr strings.Builder
}

func (h *handler) Call(_ context.Context, tool string, arguments bridge.Map) (bridge.Value, error) {
	switch tool {
	case "math:add":
		return arguments.Int("a") + arguments.Int("b"), nil
	case "echo:value":
		return arguments.Get("value"), nil
	}
	return nil, toolroom.Errorf(toolroom.CodeToolNotFound, "there is no tool %s", tool)
}

func (h *handler) Chain(context.Context, []bridge.Value) (bridge.Value, error) { return nil, nil }

func (h *handler) Search(context.Context, string, int) (bridge.Value, error) { return nil, nil }

func (h *handler) Describe(context.Context, string, string) (bridge.Value, error) { return nil, nil }

func (h *handler) Put(context.Context, string, string, []byte) (bridge.Handle, error) {
	return bridge.Handle{}, toolroom.Errorf(toolroom.CodeUnsupported, "no artifacts here")
}

func (h *handler) Get(context.Context, string, int64, int64) ([]byte, bridge.Handle, error) {
	return nil, bridge.Handle{}, toolroom.Errorf(toolroom.CodeUnsupported, "no artifacts here")
}

func (h *handler) Print(stream, text string) {
	if stream == "stderr" {
		h.stderr.WriteString(text)
		return
	}
	h.stdout.WriteString(text)
}

func (h *handler) Progress(float64, float64, string) {}
func (h *handler) Log(string, string, bridge.Map)    {}
