package run

import (
	"context"
	"encoding/json"

	"github.com/toolroom/toolroom/internal/patience"
	"github.com/toolroom/toolroom/source"
)

type askerKey struct{}

// WithAsker makes asker take the questions of tools that are called with ctx,
// and of tools that those call. Without it they can ask nobody.
func WithAsker(ctx context.Context, asker source.Asker) context.Context {
	return context.WithValue(ctx, askerKey{}, asker)
}

// patientAsker stops the clocks of its call, and of those above it, while a
// question is open.
type patientAsker struct{ source.Asker }

// Ask waits for the answers off the clock.
func (a patientAsker) Ask(ctx context.Context, questions map[string]source.Question) (map[string]json.RawMessage, error) {
	defer patience.Hold(ctx)()
	return a.Asker.Ask(ctx, questions)
}
