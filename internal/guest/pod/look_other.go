//go:build unix && !linux

package pod

import (
	"errors"
	"io"
)

// Look says that Pods run Linux.
func Look(io.Writer, []string) error {
	return errors.New("toolroom-guest look is for Pods, which run Linux")
}
