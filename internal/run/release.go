package run

import (
	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/catalog"
)

// DefaultEnvironment is the environment of a call that names none.
const DefaultEnvironment = "prod"

// Releases knows which version of a tool each environment serves.
type Releases interface {
	// Snapshot returns the releases as they stand now. A call and all calls inside it use
	// one snapshot, so that a release meanwhile does not change what they run.
	Snapshot() ReleaseSnapshot
}

// ReleaseSnapshot is the state of all releases at one time. It is immutable.
type ReleaseSnapshot interface {
	// Serve returns the version of a tool that serves a call, or nil if the tool has no
	// versions. found is the catalog's entry, or nil if the catalog has none. Serve returns
	// tool_not_found if the tool has versions, but none in the call's environment.
	Serve(call *toolroom.Call, found *catalog.Entry) (*catalog.Entry, error)
	// CheckUnchanged returns a conflict if the definition of a source's tool has changed since
	// the snapshot. It is called for child calls, which expect the definition of when their
	// outermost call began, and before each further attempt of a call.
	CheckUnchanged(found *catalog.Entry) error
}
