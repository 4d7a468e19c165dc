//go:build unix

package main

import (
	"context"
	"os"
	"syscall"
)

// replaceBy replaces this process by another program. It returns only if that fails.
func replaceBy(_ context.Context, path string, args []string) (int, error) {
	return 0, syscall.Exec(path, append([]string{path}, args...), os.Environ())
}
