//go:build !linux

package guest

import (
	"syscall"

	"github.com/toolroom/toolroom/bridge"
)

func limit(int, bridge.Limits) error { return nil }

func childAttributes() *syscall.SysProcAttr { return ownGroup() }
