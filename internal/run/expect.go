package run

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/catalog"
	"github.com/toolroom/toolroom/internal/effects"
	"github.com/toolroom/toolroom/internal/policy"
	"github.com/toolroom/toolroom/source"
)

// Expect tells what a call of a tool with these arguments, a JSON object, would
// do. Nothing is started for it.
func (r *Runner) Expect(e *catalog.Entry, who toolroom.Identity, arguments json.RawMessage) []toolroom.Effect {
	var foreseen []toolroom.Effect
	place := effects.Place{Home: r.Home}
	if f, ok := source.As[source.Foreseer](e.Source); ok {
		foreseen, place.Dir = f.Foresee(&source.Request{Tool: e.Tool.ID, Arguments: arguments, Identity: who, Emit: func(toolroom.Event) {}})
	}
	return effects.Of(&e.Tool, arguments, foreseen, place)
}

// expect notes what this call would do.
func (p *pass) expect() []toolroom.Effect {
	p.expected = p.Expect(p.entry, p.call.Identity, p.call.Arguments)
	return p.expected
}

// Bounds of what is shown and kept of effects.
const (
	maxShownEffects    = 12
	maxRecordedEffects = 64
	maxRecordedTarget  = 512
)

// recordedEffects are those that this call would have had, without secrets. Of
// sensitive arguments nothing is told: effects may repeat them.
func (p *pass) recordedEffects() []toolroom.Effect {
	if len(p.expected) == 0 {
		return nil
	}
	known := p.expected
	if len(p.entry.Tool.Sensitive) > 0 {
		args, err := p.decodedArguments()
		if err != nil {
			return nil
		}
		known = p.Expect(p.entry, p.call.Identity, mask(args, p.entry.Tool.Sensitive))
	}
	recorded := make([]toolroom.Effect, min(len(known), maxRecordedEffects))
	for i := range recorded {
		recorded[i] = p.recordedEffect(known[i])
	}
	return recorded
}

func (p *pass) recordedEffect(e toolroom.Effect) toolroom.Effect {
	e.Target = catalog.Shorten(p.Secrets.Text(e.Target), maxRecordedTarget)
	return e
}

// because says which effect a decision is about, when it is about one.
func (p *pass) because() string {
	e := p.decision.Because
	switch {
	case e == toolroom.Effect{}:
		return ""
	case len(p.entry.Tool.Sensitive) > 0:
		return ", because of what the call would do" // its target may be told to nobody
	}
	return ", because it " + p.recordedEffect(e).String()
}

// recordedSteps are the steps of the decision without the effects that they are
// about, which may repeat secrets: [pass.recordedEffects] has those to be kept.
func (p *pass) recordedSteps() []policy.Step {
	repeats := func(s policy.Step) bool { return s.Because != toolroom.Effect{} }
	if !slices.ContainsFunc(p.decision.Steps, repeats) {
		return p.decision.Steps
	}
	steps := slices.Clone(p.decision.Steps) // they are shared
	for i := range steps {
		steps[i].Because = toolroom.Effect{}
	}
	return steps
}

// shownEffects are those that a person is told of, in plain words.
func (p *pass) shownEffects() []string {
	list := p.recordedEffects()
	words := make([]string, 0, min(len(list), maxShownEffects+1))
	for _, e := range list[:min(len(list), maxShownEffects)] {
		words = append(words, e.String())
	}
	if n := len(list) - maxShownEffects; n > 0 {
		words = append(words, fmt.Sprintf("and %d more", n))
	}
	return words
}
