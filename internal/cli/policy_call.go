package cli

import (
	"context"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/room"
)

// explainCall says what policy decides about one call, and what the call would
// do.
func (a *app) explainCall(ctx context.Context, r *room.Room, who toolroom.Identity, tool string, words []string, asJSON bool) error {
	arguments, err := a.callArguments(ctx, r, toolroom.Call{Tool: tool}, words)
	if err != nil {
		return err
	}
	x, err := r.ExplainCall(ctx, tool, who, arguments)
	if err != nil {
		return err
	}
	if asJSON {
		x.Steps, x.Effects = orEmpty(x.Steps), orEmpty(x.Effects)
		return a.screen.json(x)
	}
	if err := a.printDecision(tool, who, x.Decision, x.Steps); err != nil {
		return err
	}
	if len(x.Effects) == 0 {
		return a.screen.printf("nothing is known of what this call would do\n")
	}
	for _, e := range x.Effects {
		if err := a.screen.printf("it %s\n", e); err != nil {
			return err
		}
	}
	return nil
}
