package sandbox

import "context"

// Leftover is something that a Toolroom process which no longer runs has left
// behind.
type Leftover struct {
	// Kind is what it is: process, container, lease, cgroup, folder …
	Kind string `json:"kind"`
	Name string `json:"name"`
	// Error says why it could not be removed.
	Error string `json:"error,omitempty"`
}

// Cleaner is a driver whose sandboxes can outlive their Toolroom.
type Cleaner interface {
	// Clean lists what processes of this machine that no longer run have left,
	// and removes it unless dry. It touches nothing without our mark. An error
	// says that the engine could not be asked.
	Clean(ctx context.Context, dry bool) ([]Leftover, error)
}

// Remove does away with l unless dry, and notes why that failed.
func (l Leftover) Remove(dry bool, remove func() error) Leftover {
	if !dry {
		if err := remove(); err != nil {
			l.Error = err.Error()
		}
	}
	return l
}
