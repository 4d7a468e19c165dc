package source

import "github.com/toolroom/toolroom"

// EffectPredictor is implemented by sources that can predict more of a call's
// effects than Tool.Effects says.
type EffectPredictor interface {
	// PredictEffects returns the effects of a call, computed from its arguments.
	// Toolroom calls it for every call before policy has permitted it, so it must
	// start nothing and must not block. Dir is the folder to which relative paths
	// in the arguments refer; empty means the working directory of this process.
	// Effects have the forms that [toolroom.Effect] describes.
	PredictEffects(req *Request) (effects []toolroom.Effect, dir string)
}
