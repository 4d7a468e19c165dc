//go:build !linux || !(amd64 || arm64)

package fence

import (
	"runtime"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/proc"
)

// Start refuses: programs can be fenced off on Linux only.
func (f *Fence) Start(proc.Spec) (*proc.Process, error) {
	return nil, toolroom.Errorf(toolroom.CodeSandboxUnavailable, "a program's network cannot be fenced off on %s", runtime.GOOS).
		WithHint("run Toolroom on Linux; network: host runs the program unguarded")
}

// Main is the launcher, which there is none of.
func Main([]string) int { return 2 }
