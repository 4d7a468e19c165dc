package run

import (
	"context"
	"encoding/json"

	"github.com/toolroom/toolroom/internal/patience"
	"github.com/toolroom/toolroom/internal/secret"
	"github.com/toolroom/toolroom/source"
)

type askerKey struct{}

// WithAsker makes asker take the questions of tools that are called with ctx,
// and of tools that those call. Without it they can ask nobody.
func WithAsker(ctx context.Context, asker source.Asker) context.Context {
	return context.WithValue(ctx, askerKey{}, asker)
}

// toolAsker is whom a tool asks: without known secrets in the questions, and
// with the clocks of its call, and of those above it, stopped while one is open.
type toolAsker struct {
	source.Asker
	secrets *secret.Masker // nil where there are none
}

// Ask waits for the answers off the clock.
func (a toolAsker) Ask(ctx context.Context, questions map[string]source.Question) (map[string]json.RawMessage, error) {
	defer patience.Hold(ctx)()
	return a.Asker.Ask(ctx, a.masked(questions))
}

// Capabilities implements [source.Able].
func (a toolAsker) Capabilities() json.RawMessage {
	if able, ok := a.Asker.(source.Able); ok {
		return able.Capabilities()
	}
	return nil
}

// Note implements [source.Noter]: where the asker is none, nothing is kept.
func (a toolAsker) Note(ctx context.Context, state json.RawMessage) error {
	noter, ok := a.Asker.(source.Noter)
	if !ok {
		return nil
	}
	if a.secrets != nil {
		state = a.secrets.Mask(state)
	}
	return noter.Note(ctx, state)
}

func (a toolAsker) masked(questions map[string]source.Question) map[string]source.Question {
	if a.secrets == nil {
		return questions
	}
	masked := make(map[string]source.Question, len(questions))
	for key, q := range questions {
		q.Params, q.Sent, q.Round = a.secrets.Mask(q.Params), a.secrets.Mask(q.Sent), a.secrets.Mask(q.Round)
		masked[key] = q
	}
	return masked
}
