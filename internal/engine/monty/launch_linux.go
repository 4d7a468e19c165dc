package monty

import (
	"context"
	"debug/elf"
	"os"
	"slices"

	"github.com/toolroom/toolroom/internal/lockdown"
)

// launcher starts workers in all the isolation that the machine reaches.
type launcher struct{ host *lockdown.Host }

func newLauncher(init []string) launcher { return launcher{&lockdown.Host{Init: init}} }

// inside is where a worker is seen inside.
const inside = "/run/monty"

func (l launcher) launch(path string, in, out *os.File) (*launched, error) {
	spec := lockdown.Spec{
		Path: inside, Args: []string{"monty", "subprocess"}, Stdin: in, Stdout: out, Direct: true,
		Binds:   []lockdown.Bind{{Source: path, Target: inside}},
		Seccomp: lockdown.Hardened,
		// What is reached is told with each result, and is for policy to judge.
		Minimum: []lockdown.Rung{},
	}
	if dynamic(path) {
		spec.Root = lockdown.Root{Source: "/", Only: []string{"lib", "lib64", "usr"}} // its libraries
	}
	process, err := l.host.Start(context.Background(), spec)
	if err != nil {
		return nil, err
	}
	isolation := "monty"
	if rungs := process.Rungs(); len(rungs) > 0 {
		isolation += "+" + rungs.String()
	}
	exit := func() int {
		e, err := process.Wait()
		if err != nil {
			return -1
		}
		return e.Code
	}
	return &launched{kill: process.Kill, exit: exit, isolation: isolation}, nil
}

// dynamic tells whether a binary needs a loader and libraries.
func dynamic(path string) bool {
	binary, err := elf.Open(path)
	if err != nil {
		return true
	}
	defer binary.Close()
	return slices.ContainsFunc(binary.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_INTERP })
}
