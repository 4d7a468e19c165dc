// Package start reads the environment for the programs that have Toolroom's command line. No
// other package reads it.
package start

import (
	"cmp"
	"context"
	"os"
	"os/signal"
	"os/user"
	"path/filepath"
	"runtime/debug"
	"strings"
	"syscall"

	"github.com/toolroom/toolroom/internal/app"
	"github.com/toolroom/toolroom/internal/cli"
	"github.com/toolroom/toolroom/internal/cli/start/collector"
)

// Run runs the command line of this process and returns its exit code.
func Run(p cli.Program) int {
	// Writing to a closed pipe returns an error, so that running work can end in an orderly
	// way.
	signal.Ignore(syscall.SIGPIPE)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	// A second Ctrl-C ends the process at once.
	context.AfterFunc(ctx, stop)
	return p.Run(ctx, os.Args[1:])
}

// RunHelper runs this process as a helper process, if a room has started it as one.
func RunHelper() (code int, ok bool) {
	if len(os.Args) > 1 && strings.HasPrefix(os.Args[1], "__") {
		collector.Resume() // a helper may last, and has little memory
	}
	return app.RunHelper(os.Args[1:])
}

func open(ctx context.Context, o app.Options) (*app.App, error) {
	collector.ResumeAfterFirst()
	return app.Open(ctx, o)
}

// Program returns the command line for this environment. version is that of the build; if
// it is empty, the version of the module counts.
func Program(version string) cli.Program {
	// If the system cannot determine one of these, flags can.
	home, _ := os.UserHomeDir()
	dir, _ := os.Getwd()
	userConfig, _ := os.UserConfigDir()
	self, _ := os.Executable()
	return cli.Program{
		In:          os.Stdin,
		Out:         os.Stdout,
		Err:         os.Stderr,
		Home:        stateFolder(home),
		Config:      os.Getenv("TOOLROOM_CONFIG"),
		TrustConfig: os.Getenv("TOOLROOM_TRUST_CONFIG") == "1",
		Quiet:       os.Getenv("TOOLROOM_QUIET") == "1",
		Dir:         dir,
		UserConfig:  userConfig,
		UserHome:    home,
		User:        userName(),
		Editor:      cmp.Or(os.Getenv("VISUAL"), os.Getenv("EDITOR")),
		NoColor:     os.Getenv("NO_COLOR") != "" || os.Getenv("TERM") == "dumb",
		Version:     Version(version),
		ReleasesURL: os.Getenv("TOOLROOM_RELEASES_URL"),
		Self:        self,
		Helper:      self,
		Guest:       findGuest(self),
		Runner:      findRunner(self),
		Open:        open,
		Exit:        os.Exit,
	}
}

// findGuest returns toolroom-guest next to this binary, which is smaller and starts faster.
// If it is missing, it returns the zero Guest: then this binary is the guest.
func findGuest(self string) app.Guest {
	beside := filepath.Join(filepath.Dir(self), "toolroom-guest")
	if info, err := os.Stat(beside); err == nil && info.Mode().IsRegular() {
		return app.Guest{Path: beside}
	}
	return app.Guest{}
}

// findRunner returns toolroom-runner next to this binary, or its name, which is then
// searched in PATH.
func findRunner(self string) string {
	name := app.RunnerName
	beside := filepath.Join(filepath.Dir(self), name+filepath.Ext(self))
	if info, err := os.Stat(beside); err == nil && info.Mode().IsRegular() {
		return beside
	}
	return name
}

// stateFolder returns TOOLROOM_HOME, $XDG_STATE_HOME/toolroom or ~/.local/state/toolroom.
func stateFolder(home string) string {
	if folder := os.Getenv("TOOLROOM_HOME"); folder != "" {
		return folder
	}
	if state := os.Getenv("XDG_STATE_HOME"); filepath.IsAbs(state) {
		return filepath.Join(state, "toolroom")
	}
	return filepath.Join(home, ".local", "state", "toolroom")
}

func userName() string {
	if u, err := user.Current(); err == nil {
		return u.Username
	}
	return ""
}

// Version returns the version that was built in, or else that of the module.
func Version(version string) string {
	if version != "" {
		return version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "devel"
}
