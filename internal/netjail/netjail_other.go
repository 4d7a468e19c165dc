//go:build !linux || !(amd64 || arm64)

package netjail

import (
	"runtime"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/proc"
)

// Start returns an error: a program's network can be isolated on Linux only.
func (j *Jail) Start(proc.Spec) (*proc.Process, error) {
	return nil, toolroom.Errorf(toolroom.CodeSandboxUnavailable, "a program's network cannot be isolated on %s", runtime.GOOS).
		WithHint("run Toolroom on Linux; network: host runs the program without a guard")
}
