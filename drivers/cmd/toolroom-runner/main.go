// Command toolroom-runner has the sandbox drivers of foreign engines, and Temporal. toolroom
// starts it when it first needs one of them, and speaks to it as docs/runner.md says. It
// also runs the commands of toolroom that need their code: toolroom hands those over.
package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/toolroom/toolroom/drivers"
	"github.com/toolroom/toolroom/internal/cli"
	"github.com/toolroom/toolroom/internal/cli/start"
	"github.com/toolroom/toolroom/internal/cli/start/collector"
	"github.com/toolroom/toolroom/internal/sandbox/program"
)

// version is set by release builds.
var version string

func main() {
	if code, ok := start.RunHelper(); ok {
		os.Exit(code)
	}
	if socket := os.Getenv(program.SocketEnv); socket != "" {
		os.Unsetenv(program.SocketEnv) // what the drivers start is not a runner
		os.Exit(serve(socket))
	}
	os.Exit(start.Run(commandLine()))
}

// serve serves the drivers to the program that has started this one.
func serve(socket string) int {
	collector.Resume()
	// After the end of that program, writing to stderr must not end this one.
	signal.Ignore(syscall.SIGPIPE)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	if err := drivers.Serve(ctx, socket, start.Version(version), os.Getenv, log); err != nil {
		fmt.Fprintln(os.Stderr, "toolroom-runner:", err)
		return 1
	}
	return 0
}

// commandLine returns the commands that toolroom hands over.
func commandLine() cli.Program {
	p := start.Program(version)
	p.Runner = p.Self
	p.Workflows = drivers.Workflows
	p.Foreign = drivers.Commands{Guest: p.Guest.Path, Getenv: os.Getenv, Err: os.Stderr}
	return p
}
