package httpapi

import (
	"context"
	"encoding/json"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/expression"
	"github.com/toolroom/toolroom/internal/jsonx"
	"github.com/toolroom/toolroom/source"
)

// mappingTime limits one evaluation of map. The meter of an expression limits its work.
const mappingTime = time.Second

// mapping converts a response to a value with the expression in the config.
type mapping struct{ program *expression.Program }

func (t *Tool) mapping() (*mapping, error) {
	program, err := expression.Compile(t.Map, expression.Any, "value", "args")
	return &mapping{program}, err
}

// apply replaces the value of an output and removes its content. An empty response, such as one
// with status 204, stays empty if the expression needs a value.
func (m *mapping) apply(ctx context.Context, output *source.Output, args json.RawMessage) error {
	ctx, cancel := context.WithTimeout(ctx, mappingTime)
	defer cancel()
	value, err := m.run(ctx, output.Value, args)
	if err != nil && len(output.Value) == 0 && len(output.Content) == 0 {
		return ctx.Err()
	}
	if err != nil {
		return toolroom.Errorf(toolroom.CodeInvalidOutput, "the service answered, but map failed: %w", err).
			WithHint("correct map in the tool's config")
	}
	output.Value, output.Content = value, nil
	return nil
}

func (m *mapping) run(ctx context.Context, value, args json.RawMessage) (json.RawMessage, error) {
	variables := map[string]any{}
	for name, text := range map[string]json.RawMessage{"value": value, "args": args} {
		if len(text) == 0 {
			continue
		}
		tree, err := jsonx.Decode(text, jsonx.Limits{Bytes: len(text)})
		if err != nil {
			return nil, err
		}
		variables[name] = jsonx.Native(tree)
	}
	result, err := m.program.Run(ctx, new(expression.Meter), variables)
	if err != nil {
		return nil, err
	}
	return jsonx.Marshal(result)
}
