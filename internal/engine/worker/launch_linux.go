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
	host    *lockdown.HostMachine
}

// NewLauncher returns a launcher. The sandbox argument names the engine's own
// isolation, such as wasm, which comes before the isolation of the process; init
// is the command that begins a sandbox, as in [lockdown.HostMachine].
func NewLauncher(sandbox string, init []string) *Launcher {
	return &Launcher{sandbox, &lockdown.HostMachine{Init: init}}
}

// The paths of a process's binary and folder inside its namespaces.
const (
	insidePath   = "/run/worker"
	insideFolder = "/run/folder"
)

func (l *Launcher) launch(p *Process, s Spec, stdin, stdout, stderr *os.File) error {
	path, folder := insidePath, insideFolder
	machine := l.host.Probe(context.Background())
	if !machine.Find(lockdown.Namespaces).Available {
		path, folder = s.Path, s.Folder // without mounts their paths cannot change
	}
	spec := lockdown.Spec{
		Path: path, Args: replaceFolder(folder, s.Args), Env: replaceFolder(folder, s.Env), Stdin: stdin, Stdout: stdout, Stderr: stderr, Direct: true,
		Binds: []lockdown.Bind{{Source: s.Path, Target: path}}, Seccomp: s.Seccomp,
		// Each result reports the layers in effect, and policy judges them.
		Minimum: []lockdown.Layer{},
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
		return &lockdown.LayerError{Finding: f} // every worker needs it
	}
	if err != nil {
		return err
	}
	p.isolation, p.kill = l.sandbox, process.Kill
	if layers := process.Layers(); len(layers) > 0 {
		p.isolation += "+" + layers.String()
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

// dynamic reports whether a binary needs a loader and libraries. Released binaries
// do not; those of go test do.
func dynamic(path string) bool {
	binary, err := elf.Open(path)
	if err != nil {
		return true
	}
	defer binary.Close()
	return slices.ContainsFunc(binary.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_INTERP })
}
