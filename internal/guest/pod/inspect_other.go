//go:build unix && !linux

package pod

import (
	"errors"
	"io"
)

// Inspect returns an error: Pods run Linux.
func Inspect(io.Writer, []string) error {
	return errors.New("toolroom-guest look runs in Pods, which need Linux")
}
