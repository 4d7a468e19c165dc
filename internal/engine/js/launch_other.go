//go:build !linux

package js

import (
	"io"
	"os"
	"os/exec"
	"sync"
)

// launcher starts workers as plain processes: there is no more here.
type launcher struct{}

func newLauncher([]string) launcher { return launcher{} }

func (launcher) launch(command []string, cacheDir string, in, out *os.File, words io.Writer) (*launched, error) {
	cmd := exec.Command(command[0], append(command[1:len(command):len(command)], "-cache", cacheDir)...)
	cmd.Env = []string{} // nothing of the server's environment
	cmd.Stdin, cmd.Stdout, cmd.Stderr = in, out, words
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	kill := sync.OnceFunc(func() {
		_ = cmd.Process.Kill() // it may have ended by itself
		_ = cmd.Wait()
	})
	return &launched{kill: kill, isolation: "wasm"}, nil
}

// lock does nothing: the isolation is that of WebAssembly and of a process.
func lock() error { return nil }
