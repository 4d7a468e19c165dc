package run

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/catalog"
	"github.com/toolroom/toolroom/internal/effects"
	"github.com/toolroom/toolroom/source"
)

// PredictEffects predicts the effects of a call of a tool with these arguments, a JSON object. It
// starts nothing.
func (r *Runner) PredictEffects(e *catalog.Entry, who toolroom.Identity, arguments json.RawMessage) []toolroom.Effect {
	return r.predictEffects(e, source.Request{Identity: who, Arguments: arguments})
}

// predictEffects predicts the effects of a request, whose Tool and Emit it sets.
func (r *Runner) predictEffects(e *catalog.Entry, req source.Request) []toolroom.Effect {
	var predicted []toolroom.Effect
	base := effects.PathBase{Home: r.Home}
	if f, ok := source.As[source.Predictor](e.Source); ok {
		req.Tool, req.Emit = e.Tool.ID, func(toolroom.Event) {}
		predicted, base.Dir = f.PredictEffects(&req)
	}
	return effects.Of(&e.Tool, req.Arguments, predicted, base)
}

// predictEffects predicts the effects of this call, with these arguments.
func (c *resolvedCall) predictEffects(arguments json.RawMessage) []toolroom.Effect {
	return c.runner.predictEffects(c.entry, source.Request{Identity: c.request.Identity, Session: c.request.Session, Arguments: arguments})
}

// Limits on the effects that are shown and recorded.
const (
	maxShownEffects    = 12
	maxRecordedEffects = 64
	maxRecordedTarget  = 512
)

// recordedEffects returns the predicted effects without secrets. Effects may repeat
// arguments, so they are predicted again without the sensitive ones.
func (c *decidedCall) recordedEffects() []toolroom.Effect {
	if len(c.effects) == 0 {
		return nil
	}
	known := c.effects
	if len(c.entry.Tool.Sensitive) > 0 {
		args, err := c.decodedArguments()
		if err != nil {
			return nil
		}
		known = c.predictEffects(withoutSensitive(args, c.entry.Tool.Sensitive))
	}
	recorded := make([]toolroom.Effect, min(len(known), maxRecordedEffects))
	for i := range recorded {
		recorded[i] = c.recordedEffect(known[i])
	}
	return recorded
}

func (c *decidedCall) recordedEffect(e toolroom.Effect) toolroom.Effect {
	e.Target = catalog.Shorten(c.runner.Secrets.Text(e.Target), maxRecordedTarget)
	return e
}

// because returns the end of a sentence that names the effect which the decision is about, or
// nothing if it is about none.
func (c *decidedCall) because() string {
	e := c.decision.Because
	switch {
	case e == toolroom.Effect{}:
		return ""
	case len(c.entry.Tool.Sensitive) > 0:
		return ", because of what the call would do" // nobody may see its target
	}
	return ", because it " + c.recordedEffect(e).String()
}

// recordedSteps returns the steps of the decision without their effects, which may contain
// secrets. recordedEffects returns the effects that are recorded.
func (c *decidedCall) recordedSteps() []toolroom.PolicyStep {
	repeats := func(s toolroom.PolicyStep) bool { return s.Because != toolroom.Effect{} }
	if !slices.ContainsFunc(c.decision.Steps, repeats) {
		return c.decision.Steps
	}
	steps := slices.Clone(c.decision.Steps) // they are shared
	for i := range steps {
		steps[i].Because = toolroom.Effect{}
	}
	return steps
}

// shownEffects returns the predicted effects in words for people.
func (c *decidedCall) shownEffects() []string {
	list := c.recordedEffects()
	words := make([]string, 0, min(len(list), maxShownEffects+1))
	for _, e := range list[:min(len(list), maxShownEffects)] {
		words = append(words, e.String())
	}
	if n := len(list) - maxShownEffects; n > 0 {
		words = append(words, fmt.Sprintf("and %d more", n))
	}
	return words
}
