package main

import (
	"context"
	"errors"
	"os"
	"os/exec"
)

// replaceBy runs another program and returns its exit code. Ctrl-C reaches both.
func replaceBy(_ context.Context, path string, args []string) (int, error) {
	cmd := exec.Command(path, args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	err := cmd.Run()
	var ended *exec.ExitError
	if errors.As(err, &ended) {
		return ended.ExitCode(), nil
	}
	return 0, err
}
