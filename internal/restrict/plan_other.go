//go:build !linux

package restrict

import (
	"runtime"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/lockdown"
)

// View describes the files that a program sees.
type View struct {
	Shown        []lockdown.Bind
	Hidden, Path []string
	Scratch      string
}

// Plan returns an error: rules about files and programs can be enforced on Linux only.
func Plan([]toolroom.Effect, View) ([]lockdown.Bind, error) {
	return nil, toolroom.Errorf(toolroom.CodeSandboxUnavailable, "the policy's rules about files and programs cannot be enforced on %s", runtime.GOOS).
		WithHint("run Toolroom on Linux")
}
