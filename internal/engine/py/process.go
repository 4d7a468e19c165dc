package py

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/bridge"
	"github.com/toolroom/toolroom/internal/engine/cpython"
	"github.com/toolroom/toolroom/internal/engine/worker"
	files "github.com/toolroom/toolroom/internal/guest"
	"github.com/toolroom/toolroom/internal/lockdown"
)

// guest is a worker that has said hello.
type guest struct {
	*worker.Process
	conn *bridge.Conn
}

// End ends the guest.
func (g *guest) End() {
	_ = g.conn.Close() // it is killed next
	g.Process.End()
}

// killGrace is how long a worker may take to end a cancelled program by itself,
// before it is killed.
const killGrace = 60 * time.Millisecond

// start starts a guest and waits for its hello.
func start(ctx context.Context, self *worker.Self) (*guest, error) {
	p, err := self.Start(ctx)
	if err != nil {
		return nil, unavailable(err)
	}
	conn, err := bridge.Accept(ctx, p, bridge.Options{Grace: killGrace})
	if err != nil {
		p.End()
		return nil, unavailable(fmt.Errorf("%w%s", err, p.LastWords()))
	}
	return &guest{p, conn}, nil
}

func unavailable(err error) error {
	return toolroom.Errorf(toolroom.CodeSandboxUnavailable, "no Python worker could be started: %w", err).
		WithHint("toolroom doctor tells what this machine allows")
}

// WorkerArg is the first argument of a binary that is executed to be a worker:
// its main must hand the arguments after it to [Worker].
const WorkerArg = "__python-worker"

// Worker is the main of a worker process: it serves the bridge on stdin and
// stdout until the host ends it. It returns the exit code.
func Worker(ctx context.Context, arguments []string) int {
	if len(arguments) > 0 && arguments[0] == lockdown.InitArg {
		return lockdown.Main()
	}
	if err := work(ctx, arguments); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func work(ctx context.Context, arguments []string) error {
	flags := flag.NewFlagSet("worker", flag.ContinueOnError)
	cacheDir := flags.String("cache", "", "folder of compiled code")
	warm := flags.Bool("warm", false, "fill that folder, and end")
	if err := flags.Parse(arguments); err != nil {
		return err
	}
	m, err := cpython.New(ctx, cpython.Options{Guest: files.PythonFiles(), CacheDir: *cacheDir})
	if err != nil {
		return err
	}
	defer m.Close()
	if *warm {
		return nil
	}
	if err := m.Warm(ctx); err != nil {
		return err
	}
	debug.FreeOSMemory() // what compiling took, for the life of the worker
	// All that has to be opened or compiled is; what follows is a stranger's.
	if err := lock(); err != nil {
		return fmt.Errorf("lock the Python worker: %w", err)
	}
	return serve(ctx, m, struct {
		io.Reader
		io.Writer
	}{os.Stdin, os.Stdout})
}
