package httpsource

import (
	"context"
	"encoding/json"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/trusted"
	"github.com/toolroom/toolroom/source"
)

// mapping is what the operator's config makes of an answer.
type mapping struct{ program *trusted.Compiled }

func (t *Tool) mapping() (*mapping, error) {
	program, err := trusted.Compile(t.Map, "value", "args")
	return &mapping{program}, err
}

// apply replaces the value of an answer; what the answer showed beside it goes.
func (m *mapping) apply(ctx context.Context, output *source.Output, args json.RawMessage) error {
	value, err := m.program.Run(ctx, output.Value, args)
	if err != nil {
		return toolroom.Errorf(toolroom.CodeInvalidOutput, "the answer has come, and cannot be mapped: %w", err).
			WithHint("correct map of the tool's config")
	}
	output.Value, output.Content = value, nil
	return nil
}
