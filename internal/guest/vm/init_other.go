//go:build !linux

package vm

import (
	"fmt"
	"os"
)

// Main prints an error: virtual machines run Linux.
func Main() int {
	fmt.Fprintln(os.Stderr, "toolroom-guest vm is the first process of a Linux virtual machine")
	return 2
}
