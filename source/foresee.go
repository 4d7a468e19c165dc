package source

import "github.com/toolroom/toolroom"

// Foreseer is implemented by sources that can tell more of what a call would do
// than Tool.Effects says.
type Foreseer interface {
	// Foresee tells the effects of a call before policy has permitted it, on the
	// way of every call: it must start nothing and wait for nothing. Dir is the
	// folder in which relative paths of the arguments begin; empty is that of
	// this process. Effects are in the forms that [toolroom.Effect] describes.
	Foresee(req *Request) (effects []toolroom.Effect, dir string)
}
