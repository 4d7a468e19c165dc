package worker

import (
	"context"
	"debug/elf"
	"os"
	"slices"

	"github.com/toolroom/toolroom/internal/lockdown"
)

// Launcher starts the processes of an engine.
type Launcher struct {
	sandbox string
	host    *lockdown.Host
}

// NewLauncher makes a launcher. Sandbox names the engine's own isolation, such
// as wasm, which comes before that of the process; init is the command that
// begins a sandbox, as in [lockdown.Host].
func NewLauncher(sandbox string, init []string) *Launcher {
	return &Launcher{sandbox, &lockdown.Host{Init: init}}
}

// Where a process sees its binary and its folder, with namespaces.
const (
	insidePath   = "/run/worker"
	insideFolder = "/run/folder"
)

func (l *Launcher) launch(p *Process, s Spec, stdin, stdout, stderr *os.File) error {
	path, folder := insidePath, insideFolder
	machine := l.host.Probe(context.Background())
	if !machine.Find(lockdown.Namespaces).Available {
		path, folder = s.Path, s.Folder // there are no mounts to show them elsewhere
	}
	spec := lockdown.Spec{
		Path: path, Args: at(folder, s.Args), Env: at(folder, s.Env), Stdin: stdin, Stdout: stdout, Stderr: stderr, Direct: true,
		Binds: []lockdown.Bind{{Source: s.Path, Target: path}}, Seccomp: s.Seccomp,
		// What is reached is told with each result, and is for policy to judge.
		Minimum: []lockdown.Rung{},
		Limits:  lockdown.Limits{Memory: s.Memory}, BestEffort: true,
	}
	if s.Folder != "" {
		spec.Binds = append(spec.Binds, lockdown.Bind{Source: s.Folder, Target: folder})
	}
	if dynamic(s.Path) {
		spec.Root = lockdown.Root{Source: "/", Only: []string{"lib", "lib64", "usr"}} // its libraries
	}
	process, err := l.host.Start(context.Background(), spec)
	if f := machine.Find(lockdown.Seccomp); err != nil && !f.Available {
		return &lockdown.RungError{Finding: f} // no worker does without
	}
	if err != nil {
		return err
	}
	p.isolation, p.kill = l.sandbox, process.Kill
	if rungs := process.Rungs(); len(rungs) > 0 {
		p.isolation += "+" + rungs.String()
	}
	p.exit = func() int {
		e, err := process.Wait()
		if err != nil {
			return -1
		}
		return e.Code
	}
	return nil
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
