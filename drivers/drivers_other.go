//go:build !linux

package drivers

import (
	"github.com/toolroom/toolroom/internal/config"
	"github.com/toolroom/toolroom/internal/sandbox/program"
)

// addLinux adds none, because this is not Linux.
func addLinux(map[string]program.NewDriver) {}

func containerdLoader(config.Containerd) imageLoader { return nil }
