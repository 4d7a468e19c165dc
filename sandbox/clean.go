package sandbox

import "context"

// Leftover is something left behind by a Toolroom process that has ended.
type Leftover struct {
	// Kind is the kind of leftover: process, container, lease, cgroup, folder …
	Kind string `json:"kind"`
	Name string `json:"name"`
	// Error says why it could not be removed.
	Error string `json:"error,omitempty"`
}

// Cleaner is a driver whose sandboxes can outlive their Toolroom process.
type Cleaner interface {
	// Clean lists the leftovers of processes of this machine that have ended, and
	// removes them unless dry is set. It touches only what carries Toolroom's labels.
	// The error is non-nil if the engine could not be asked.
	Clean(ctx context.Context, dry bool) ([]Leftover, error)
}

// Remove calls remove unless dry is set, and records its error in Leftover.Error.
func (l Leftover) Remove(dry bool, remove func() error) Leftover {
	if !dry {
		if err := remove(); err != nil {
			l.Error = err.Error()
		}
	}
	return l
}
