//go:build !linux

package folder

import (
	"errors"
	"os"
)

// openBeneath is for Linux, whose kernel can open a path without links in one step.
func openBeneath(*os.File, string, string, uint64) (*os.File, error) {
	return nil, errors.ErrUnsupported
}

const pathOnly = 0
