//go:build !linux

package worker

import (
	"os"
	"os/exec"
	"sync"
)

// Launcher starts the processes of an engine, without further isolation on this platform.
type Launcher struct{ sandbox string }

// NewLauncher returns a launcher. The sandbox argument names the engine's own isolation.
func NewLauncher(sandbox string, _ []string) *Launcher { return &Launcher{sandbox} }

func (l *Launcher) launch(p *Process, s Spec, stdin, stdout, stderr *os.File) error {
	cmd := &exec.Cmd{Path: s.Path, Args: replaceFolder(s.Folder, s.Args), Env: replaceFolder(s.Folder, s.Env), Stdin: stdin, Stdout: stdout, Stderr: stderr}
	if err := cmd.Start(); err != nil {
		return err
	}
	wait := sync.OnceFunc(func() { _ = cmd.Wait() })
	p.isolation = l.sandbox
	p.kill = func() {
		_ = cmd.Process.Kill() // the process may have ended by itself
		wait()
	}
	p.exit = func() int {
		wait()
		return cmd.ProcessState.ExitCode()
	}
	return nil
}
