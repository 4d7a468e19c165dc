//go:build unix

package guest

import (
	"context"
	"fmt"
	"net"
	"os"

	"github.com/toolroom/toolroom/internal/engine/module"
)

// wasmArg makes the guest's binary run as the interpreter of a WebAssembly module, in
// a process of its own like any other interpreter.
const wasmArg = "wasm"

// runModule is the main function of that process. It returns the exit code.
func runModule() int {
	if err := serveModule(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func serveModule() error {
	file := os.NewFile(bridgeFD, "bridge")
	stream, err := net.FileConn(file)
	file.Close()
	if err != nil {
		return fmt.Errorf("take over the stream: %w", err)
	}
	defer stream.Close()
	m, err := module.NewMachine(context.Background())
	if err != nil {
		return err
	}
	defer m.Close()
	return m.Serve(context.Background(), stream)
}
