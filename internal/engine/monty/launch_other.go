//go:build !linux

package monty

import (
	"os"
	"os/exec"
	"sync"
)

// launcher starts workers as plain processes: there is no more here.
type launcher struct{}

func newLauncher([]string) launcher { return launcher{} }

func (launcher) launch(path string, in, out *os.File) (*launched, error) {
	cmd := exec.Command(path, "subprocess")
	cmd.Env = []string{} // nothing of the server's environment
	cmd.Stdin, cmd.Stdout = in, out
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	wait := sync.OnceFunc(func() { _ = cmd.Wait() })
	kill := func() {
		_ = cmd.Process.Kill() // it may have ended by itself
		wait()
	}
	exit := func() int {
		wait()
		return cmd.ProcessState.ExitCode()
	}
	return &launched{kill: kill, exit: exit, isolation: "monty"}, nil
}
