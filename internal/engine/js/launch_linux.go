package js

import (
	"context"
	"debug/elf"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/toolroom/toolroom/internal/lockdown"
)

// launcher starts workers in all the isolation that the machine reaches.
type launcher struct{ host *lockdown.Host }

func newLauncher(command []string) launcher {
	return launcher{&lockdown.Host{Init: append(slices.Clone(command), lockdown.InitArg)}}
}

// Where a worker sees its own binary and the compiled code.
const (
	workerPath = "/run/toolroom"
	workerCode = "/run/cache"
)

func (l launcher) launch(command []string, cacheDir string, in, out *os.File, words io.Writer) (*launched, error) {
	arguments := append(slices.Clone(command), "-cache", "")
	binds := []lockdown.Bind{{Source: command[0], Target: workerPath}}
	if cacheDir != "" {
		arguments[len(arguments)-1] = workerCode
		binds = append(binds, lockdown.Bind{Source: cacheDir, Target: workerCode})
	}
	said, theirs, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer theirs.Close()
	go func() {
		defer said.Close()
		_, _ = io.Copy(words, said) // ends with the worker
	}()
	spec := lockdown.Spec{
		Path: workerPath, Args: arguments, Stdin: in, Stdout: out, Stderr: theirs, Binds: binds, Direct: true,
		// What is reached is told with each result, and is for policy to judge.
		Minimum: []lockdown.Rung{},
	}
	if dynamic(command[0]) {
		spec.Root = lockdown.System() // its libraries
	}
	process, err := l.host.Start(context.Background(), spec)
	if err != nil {
		return nil, err
	}
	isolation := "wasm"
	if rungs := process.Rungs(); len(rungs) > 0 {
		isolation += "+" + rungs.String()
	}
	return &launched{kill: process.Kill, isolation: isolation}, nil
}

// dynamic tells whether a binary needs a loader and libraries. Those that are
// released do not; those of go test do.
func dynamic(path string) bool {
	binary, err := elf.Open(path)
	if err != nil {
		return true
	}
	defer binary.Close()
	return slices.ContainsFunc(binary.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_INTERP })
}

// lock takes from this process what running JavaScript does not need.
func lock() error {
	if err := lockdown.LockSelf(lockdown.Lock{}); err != nil {
		return fmt.Errorf("lock the JavaScript worker: %w", err)
	}
	return nil
}
