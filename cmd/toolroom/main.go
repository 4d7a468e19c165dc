// Command toolroom is a gateway and runtime for agent tools.
package main

import (
<<<<<<< HEAD
	"cmp"
	"context"
=======
>>>>>>> main
	"os"

	"github.com/toolroom/toolroom/internal/app"
	"github.com/toolroom/toolroom/internal/cli"
	"github.com/toolroom/toolroom/internal/cli/start"
)

// version is set by release builds.
var version string

func main() {
	if code, ok := app.RunHelper(os.Args[1:]); ok {
		os.Exit(code)
	}
	os.Exit(run())
}

func run() int { return start.Run(program()) }

func program() cli.Program {
<<<<<<< HEAD
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
		Dir:         dir,
		UserConfig:  userConfig,
		UserHome:    home,
		User:        userName(),
		Editor:      cmp.Or(os.Getenv("VISUAL"), os.Getenv("EDITOR")),
		NoColor:     os.Getenv("NO_COLOR") != "" || os.Getenv("TERM") == "dumb",
		Version:     versionOf(debug.ReadBuildInfo),
		ReleasesURL: os.Getenv("TOOLROOM_RELEASES_URL"),
		Self:        self,
		Helper:      self,
		Guest:       findGuest(self),
		Drivers:     drivers,
		Workflows:   workflows,
		Open:        app.Open,
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

// versionOf returns the version that was built in, or else that of the module.
func versionOf(read func() (*debug.BuildInfo, bool)) string {
	if version != "" {
		return version
	}
	if info, ok := read(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "devel"
=======
	p := start.Program(version)
	p.Exec = replaceBy
	return p
>>>>>>> main
}
