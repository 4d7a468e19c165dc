// Package cli is Toolroom's command line: each command is in a file of its
// name. It turns what a person types into work for a [room.Room] and prints
// what comes back; it decides nothing about tools itself. What it needs of the
// process and its environment is given to it in [Program], so that it runs in a
// test as it does in a terminal.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/config"
	"github.com/toolroom/toolroom/room"
	"github.com/toolroom/toolroom/sandbox"
)

// Program is what the command line gets from the process that it runs in. In,
// Out, Err and Open are required.
type Program struct {
	In       io.Reader
	Out, Err io.Writer

	// Home is the folder of all state, unless --home names another.
	Home string
	// Config is the config file, unless --config names another. When both are
	// empty it is looked for in Dir and then in UserConfig.
	Config, Dir, UserConfig string
	// UserHome is the folder that has the configs of other programs.
	UserHome string
	// User is the name under which a person answers approvals.
	User string
	// NoColor turns colours off, as --no-color does.
	NoColor bool
	Version string
	// Helper, Guest and Drivers are what programs run with; see [room.Options].
	Helper  string
	Guest   room.Guest
	Drivers func(room.Runtimes) []sandbox.Driver
	// Workflows carry programs and chains; see [room.Options].
	Workflows func(room.WorkflowOptions) room.Workflows

	// Open opens the room that commands work on: [room.Open], or a function
	// that puts tools of its own into it.
	Open func(context.Context, room.Options) (*room.Room, error)
}

// app is one run of the program.
type app struct {
	Program
	screen *screen

	home, configFile string
	logLevel         string
	level            slog.Level // what logLevel means, when it is not empty
	noColor          bool
}

// Run runs one command line, without the program's name, and returns the exit
// code. Cancelling ctx ends what runs.
func (p Program) Run(ctx context.Context, args []string) int {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	// A reader of stdout that has left wants no more work done.
	out := &pipe{w: p.Out, broken: cancel}
	p.Out = out
	a := &app{Program: p, screen: newScreen(p.In, out, p.Err)}
	root := a.root()
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if out.err != nil {
		return toolroom.ExitOK
	}
	return a.exit(err)
}

// exit reports err and gives the code that the process ends with.
func (a *app) exit(err error) int {
	var code exitCode
	var usage *usageError
	switch {
	case err == nil:
		return toolroom.ExitOK
	case errors.As(err, &code):
		return int(code)
	case errors.As(err, &usage):
		a.screen.fail(err.Error(), usage.hint)
		return toolroom.ExitError
	case errors.Is(err, context.Canceled):
		return toolroom.ExitCancelled
	}
	e := toolroom.AsError(err)
	// err may say more than the Error that it wraps: where it was met.
	a.screen.fail(err.Error(), e.Hint)
	return e.Code.Info().Exit
}

// exitCode ends the program with a code when everything has been said.
type exitCode int

func (c exitCode) Error() string { return fmt.Sprintf("exit code %d", int(c)) }

// usageError is a mistake in the command line itself.
type usageError struct{ message, hint string }

func (e *usageError) Error() string { return e.message }

func usage(hint, format string, args ...any) error {
	return &usageError{message: fmt.Sprintf(format, args...), hint: hint}
}

// pipe is stdout. When its reader has left it tells so once, and the program
// ends without a word.
type pipe struct {
	w      io.Writer
	broken context.CancelFunc
	err    error
}

func (p *pipe) Write(b []byte) (int, error) {
	if p.err != nil {
		return 0, p.err
	}
	n, err := p.w.Write(b)
	if errors.Is(err, syscall.EPIPE) || errors.Is(err, io.ErrClosedPipe) {
		p.err = err
		p.broken()
	}
	return n, err
}

// withRoom makes a command that works on the open room.
func (a *app) withRoom(run func(ctx context.Context, r *room.Room, args []string) error) func(*cobra.Command, []string) error {
	return func(c *cobra.Command, args []string) error {
		ctx := c.Context()
		return a.inRoom(ctx, func(r *room.Room) error { return run(ctx, r, args) })
	}
}

func (a *app) inRoom(ctx context.Context, do func(*room.Room) error) (err error) {
	r, err := a.openRoom(ctx, slog.LevelWarn)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	return do(r)
}

func (a *app) openRoom(ctx context.Context, level slog.Level) (*room.Room, error) {
	file, err := a.findConfig()
	if err != nil {
		return nil, err
	}
	return a.Open(ctx, room.Options{Home: a.home, ConfigFile: file, Log: a.log(level), Version: a.Version, Helper: a.Helper, Guest: a.Guest, Drivers: a.Drivers, Workflows: a.Workflows})
}

// findConfig is the config file, or empty where there is none and none was
// asked for: a room without one has no sources.
func (a *app) findConfig() (string, error) {
	file, err := config.Find(a.configFile, a.Dir, a.UserConfig)
	if a.configFile == "" && errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return file, err
}

// log writes to stderr from level on. A program that runs a command is not
// bothered with warnings, unless --log-level asks for them.
func (a *app) log(level slog.Level) *slog.Logger {
	switch {
	case a.logLevel != "":
		level = a.level
	case !a.screen.errTerminal && level >= slog.LevelWarn:
		return slog.New(slog.DiscardHandler)
	}
	return slog.New(slog.NewTextHandler(a.screen, &slog.HandlerOptions{Level: level}))
}

// logLevels are the words of --log-level.
func logLevels() []string { return []string{"debug", "info", "warn", "error"} }
