//go:build unix && !linux

package guest

import (
	"errors"
	"io"
)

// inspectPod returns an error: Pods run Linux.
func inspectPod(io.Writer, []string) error {
	return errors.New("toolroom-guest look runs in Pods, which need Linux")
}
