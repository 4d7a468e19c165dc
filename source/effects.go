package source

import (
	"context"

	"github.com/toolroom/toolroom"
)

// Predictor is implemented by sources that know more about what a call would do than
// the definition of its tool says. A method that knows nothing returns zero values.
type Predictor interface {
	// PredictEffects returns the effects of a call, computed from its arguments.
	// Toolroom calls it for every call before policy has permitted it, so it must
	// start nothing and must not block. Dir is the folder to which relative paths
	// in the arguments refer; empty means the working directory of this process.
	// Effects have the forms that [toolroom.Effect] describes.
	PredictEffects(req *Request) (effects []toolroom.Effect, dir string)

	// Enforces reports whether the source can keep the programs that a call starts from
	// breaking a rule, whatever the programs do. A rule is an effect whose target is
	// a pattern. Predicted are the effects of the call. If Enforces returns false, policy
	// denies the call unless it is known to keep the rule. It must not block for long.
	Enforces(req *Request, rule toolroom.Effect, predicted []toolroom.Effect) bool

	// Preview describes what the call would do to the person who decides about its
	// approval, without changing anything. It is called once before a person is asked,
	// concurrently, and should return within a second; ctx ends with the call. The zero
	// Preview means that nothing is known beyond the arguments.
	Preview(ctx context.Context, req *Request) (Preview, error)
}

// Preview describes what a call would do.
type Preview struct {
	// Effects are short sentences in plain words, such as "writes 3 lines to
	// notes/today.md".
	Effects []string
	// Diff is a unified diff of the text that the call would change.
	Diff string
}
