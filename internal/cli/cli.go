// Package cli is Toolroom's command line. Each command is in a file of its name. It
// translates what a person types into calls of a [app.App] and prints the results; it
// decides nothing about tools itself. [Program] holds everything that it needs of the
// process and its environment, so that tests can run it like a terminal does.
package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"regexp"
	"slices"
	"sync/atomic"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/app"
	"github.com/toolroom/toolroom/internal/config"
	"github.com/toolroom/toolroom/internal/secret"
	"github.com/toolroom/toolroom/internal/server"
)

// Program is the environment in which the command line runs. In, Out, Err and Open are
// required.
type Program struct {
	In       io.Reader
	Out, Err io.Writer

	// Home is the folder that holds all state, unless --home names another.
	Home string
	// Config is the config file, unless --config names another. If both are empty, the file
	// is searched in Dir and then in UserConfig.
	Config, Dir, UserConfig string
	// TrustConfig trusts the config in Dir, as --trust-config does.
	TrustConfig bool
	// Quiet omits the messages about work that takes long.
	Quiet bool
	// UserHome is the folder that contains the configs of other programs.
	UserHome string
	// User is the name under which a person answers approvals.
	User string
	// Editor is the command that edits a file, as VISUAL or EDITOR name it.
	Editor string
	// NoColor disables colours, as --no-color does.
	NoColor bool
	Version string
	// ReleasesURL is the address that describes the newest release; empty means GitHub's.
	ReleasesURL string
	// Self is the path of this program, for configs and units that start it.
	Self string
	// Helper, Guest and Runner run programs; see [app.Options].
	Helper string
	Guest  app.Guest
	Runner string
	// Workflows carry programs and chains; see [app.Options].
	Workflows func(app.WorkflowOptions) app.Workflows
	// Foreign is set in toolroom-runner only. Without it, commands that need it run
	// toolroom-runner by Exec, which replaces this process, or returns the exit code.
	Foreign Foreign
	Exec    func(ctx context.Context, path string, args []string) (code int, err error)
	// Exit ends this process at once, if a server does not stop. Nil ends nothing.
	Exit func(code int)

	// Open opens the room that commands use: [app.Open], or a function that adds its own
	// tools.
	Open func(context.Context, app.Options) (*app.App, error)

	// shared is the room of a server that runs the command for a client.
	shared *app.App
	// serving describes that server.
	serving *serving
	// reload makes that server read its config again.
	reload func() (server.Reloaded, error)
}

// cli is one run of the command line.
type cli struct {
	Program
	screen *screen
	// secrets redacts all output once a room is open.
	secrets atomic.Pointer[secret.Redactor]

	home, configFile string
	relativeHome     bool // the default home was relative to Dir
	trustConfig      bool
	standalone       bool
	args             []string // as typed
	top              *cobra.Command
	commandPattern   *regexp.Regexp // a command of this program in a text
	stopActivity     func()
	output           string // --output
	asJSON           bool   // --json
	out              *pipe  // stdout
	logLevel         string
	level            slog.Level // the level of logLevel, if that is not empty
	noColor          bool
}

// Run runs one command line, without the program's name, and returns the exit code.
// Cancelling ctx stops the command.
func (p Program) Run(ctx context.Context, args []string) int {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	// If the reader of stdout has gone away, the work stops.
	a, out := newCLI(p, cancel)
	a.args = args
	root := a.root()
	if a.Foreign != nil { // other commands are toolroom's alone
		for _, c := range root.Commands() {
			if !slices.Contains([]string{"image", "setup", "temporal"}, c.Name()) {
				root.RemoveCommand(c)
			}
		}
	}
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	a.stopActivity()
	if out.err != nil {
		return toolroom.ExitOK
	}
	if err == nil { // cobra ignores it when it prints a help text
		err = out.failed
	}
	return a.exit(err)
}

// Commands returns the command tree, from which man pages are made.
func (p Program) Commands() *cobra.Command {
	a, _ := newCLI(p, func() {})
	return a.root()
}

// newCLI returns a cli that calls broken when the reader of its stdout has gone away.
func newCLI(p Program, broken func()) (*cli, *pipe) {
	a := &cli{stopActivity: func() {}}
	out := &pipe{w: p.Out, broken: broken, secrets: &a.secrets}
	p.Out = out
	a.out, a.Program, a.screen = out, p, newScreen(p.In, out, p.Err)
	a.screen.addFlags = a.addGlobalFlags
	a.screen.quiet = p.Quiet
	a.Err = &pipe{w: p.Err, broken: func() {}, secrets: &a.secrets}
	a.screen.err = a.Err
	return a, out
}

// exit reports err and returns the exit code of the process.
func (a *cli) exit(err error) int {
	var code exitCode
	var usage *usageError
	switch {
	case err == nil:
		return toolroom.ExitOK
	case errors.As(err, &code):
		return int(code)
	case errors.As(err, &usage):
		a.failJSON(asError(err))
		a.screen.fail(err.Error(), usage.hint)
		return toolroom.ExitError
	case errors.Is(err, context.Canceled):
		return toolroom.ExitCancelled
	}
	e := toolroom.AsError(err)
	a.failJSON(e)
	// err may say more than the Error that it wraps, such as where it occurred.
	a.screen.fail(err.Error(), e.Hints())
	return e.Code.Info().Exit
}

// exitCode ends the program with a code when everything has been printed.
type exitCode int

func (c exitCode) Error() string { return fmt.Sprintf("exit code %d", int(c)) }

// usageError is a mistake in the command line itself.
type usageError struct{ message, hint string }

func (e *usageError) Error() string { return e.message }

func usage(hint, format string, args ...any) error {
	return &usageError{message: fmt.Sprintf(format, args...), hint: hint}
}

// pipe is stdout or stderr. All output passes through one, which redacts known secrets. If
// the reader has gone away, pipe reports that once, and the program ends silently.
type pipe struct {
	w       io.Writer
	broken  context.CancelFunc
	secrets *atomic.Pointer[secret.Redactor]
	err     error // the reader has gone away
	failed  error // another error of w
	written atomic.Bool
}

func (p *pipe) Write(b []byte) (int, error) {
	if p.err != nil {
		return 0, p.err
	}
	if len(b) > 0 {
		p.written.Store(true)
	}
	_, err := p.w.Write(p.secrets.Load().Redact(b))
	if errors.Is(err, syscall.EPIPE) || errors.Is(err, io.ErrClosedPipe) {
		p.err = err
		p.broken()
		return 0, err
	}
	if err != nil {
		p.failed = err
		return 0, err
	}
	return len(b), nil
}

// withRoom returns a command function that runs with an open room.
func (a *cli) withRoom(run func(ctx context.Context, r *app.App, args []string) error) func(*cobra.Command, []string) error {
	return func(c *cobra.Command, args []string) error {
		ctx := c.Context()
		if done, err := a.runInServer(ctx, c.CommandPath(), args); done {
			return err
		}
		return a.inRoom(ctx, func(r *app.App) error {
			if set := c.Flags().Lookup("set"); set != nil {
				if err := r.CheckSet(set.Value.String()); err != nil {
					return err
				}
			}
			return run(ctx, r, args)
		})
	}
}

// withState is like withRoom, for commands that need only the state of the home. It opens no
// sources.
func (a *cli) withState(run func(ctx context.Context, r *app.App, args []string) error) func(*cobra.Command, []string) error {
	return func(c *cobra.Command, args []string) error {
		ctx := c.Context()
		if done, err := a.runInServer(ctx, c.CommandPath(), args); done {
			return err
		}
		return a.inState(ctx, func(r *app.App) error { return run(ctx, r, args) })
	}
}

func (a *cli) inState(ctx context.Context, do func(*app.App) error) error {
	return a.withOpened(do, func() (*app.App, error) { return a.openWith(ctx, slog.LevelWarn, app.OpenState) })
}

func (a *cli) inRoom(ctx context.Context, do func(*app.App) error) error {
	return a.withOpened(do, func() (*app.App, error) { return a.openRoom(ctx, slog.LevelWarn) })
}

// withOpened runs do with the room that open returns. It closes the room afterwards, unless it
// belongs to a server.
func (a *cli) withOpened(do func(*app.App) error, open func() (*app.App, error)) (err error) {
	r, err := open()
	if err != nil {
		return err
	}
	if a.shared == nil {
		defer func() {
			failed := r.Close()
			if code := exitCode(0); failed != nil && errors.As(err, &code) { // which says nothing more
				a.screen.fail(failed.Error(), "")
				return
			}
			err = errors.Join(err, failed)
		}()
	}
	return do(r)
}

func (a *cli) openRoom(ctx context.Context, level slog.Level) (*app.App, error) {
	return a.openWith(ctx, level, a.Open)
}

func (a *cli) openWith(ctx context.Context, level slog.Level, open func(context.Context, app.Options) (*app.App, error)) (*app.App, error) {
	if a.shared != nil {
		return a.redactSecrets(a.shared, nil)
	}
	file, err := a.findConfig()
	if err != nil {
		return nil, err
	}
	return a.openConfig(ctx, file, level, open)
}

func (a *cli) openConfig(ctx context.Context, file string, level slog.Level, open func(context.Context, app.Options) (*app.App, error)) (*app.App, error) {
	defer a.screen.showActivity("opening the home " + a.home)()
	return a.redactSecrets(open(ctx, a.options(file, level)))
}

// options returns the options of a room with the config file, or without one if it is empty.
func (a *cli) options(file string, level slog.Level) app.Options {
	return app.Options{
		Home: a.home, Workspace: a.Dir, ConfigFile: file, Verify: a.verifier(file), Log: a.log(level), Version: a.Version,
		Helper: a.Helper, Guest: a.Guest, Runner: a.Runner, Workflows: a.Workflows,
	}
}

// open opens a room. From then on its secrets are redacted in the output.
func (a *cli) open(ctx context.Context, o app.Options) (*app.App, error) {
	return a.redactSecrets(a.Open(ctx, o))
}

// redactSecrets makes the output redact the secrets of a room that has just been opened. It
// returns its arguments.
func (a *cli) redactSecrets(r *app.App, err error) (*app.App, error) {
	if err == nil {
		a.secrets.Store(r.Parts().Runner.Secrets)
	}
	return r, err
}

// typedPath returns the absolute form of a path; an empty one stays empty. It is relative to
// the folder of the command, because a server runs commands of other folders.
func (a *cli) typedPath(typed string) string { return absolute(a.Dir, typed) }

// argumentPath is like typedPath, but an empty argument means the folder of the command.
func (a *cli) argumentPath(typed string) string { return a.typedPath(cmp.Or(typed, ".")) }

// findConfig returns the config file, or "" if there is none and none was requested: a room
// without a config has no sources.
func (a *cli) findConfig() (string, error) {
	file, err := config.Find(a.configFile, a.Dir, a.UserConfig)
	if a.configFile == "" && errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return file, err
}

// log returns a logger to stderr for level and above. Commands that run a program suppress
// warnings, unless --log-level asks for them.
func (a *cli) log(level slog.Level) *slog.Logger {
	switch {
	case a.logLevel != "":
		level = a.level
	case !a.screen.errTerminal && level >= slog.LevelWarn:
		return slog.New(slog.DiscardHandler)
	}
	return slog.New(slog.NewTextHandler(a.screen, &slog.HandlerOptions{Level: level}))
}

// logLevels returns the values of --log-level.
func logLevels() []string { return []string{"debug", "info", "warn", "error"} }
