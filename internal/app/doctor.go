package app

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/config"
	"github.com/toolroom/toolroom/sandbox"
)

// The status values of a check.
const (
	CheckOK   = toolroom.CheckOK
	CheckInfo = toolroom.CheckInfo
	CheckWarn = toolroom.CheckWarn
	CheckFail = toolroom.CheckFail
)

// Check is one finding of [App.Doctor].
type Check struct {
	Name   string `json:"name"`
	Status string `json:"status"`
	Detail string `json:"detail"`
	// Fix is the next step if Status is not ok.
	Fix string `json:"fix,omitempty"`
	// Runtime is the status of an engine or sandbox.
	Runtime *sandbox.Status `json:"runtime,omitempty"`
}

// testRounding is the precision of displayed durations.
const testRounding = time.Millisecond

// Doctor checks everything that calls depend on: the state folder, the store, the receipts,
// each source (which it starts), and features that this system lacks. Unless tell is nil, it is
// called with what is checked next.
func (a *App) Doctor(ctx context.Context, tell func(what string)) []Check {
	if tell == nil {
		tell = func(string) {}
	}
	tell("the home")
	checks := []Check{a.checkHome(), a.checkReceipts(ctx), checkSystem()}
	for _, s := range a.Config().PlainSecrets() {
		checks = append(checks, Check{Name: "config", Status: CheckWarn, Detail: s.Key + " seems to hold a secret in plain text", Fix: s.Fix})
	}
	checks = append(checks, a.checkKeyrings(ctx)...)
	for _, h := range a.allManagers() {
		tell("source " + h.name)
		test, err := a.TestSource(ctx, h.name)
		c := Check{Name: "source " + h.name, Status: CheckOK, Detail: fmt.Sprintf("%d tools in %s", test.Tools, test.Took.Round(testRounding))}
		switch {
		case err != nil:
			c.Status, c.Detail = CheckFail, err.Error()
		case test.Error != "":
			c.Status, c.Detail, c.Fix = CheckFail, test.Error, test.Reason
		case test.Tools == 0:
			c.Status, c.Detail, c.Fix = CheckWarn, "the source has no tools", "check tools.include and tools.exclude of the source"
		case test.Quarantined > 0 || len(test.Findings) > 0:
			c.Status, c.Fix = CheckWarn, "toolroom tool diff '"+h.name+":*'"
			c.Detail += fmt.Sprintf("; quarantined: %d; suspicious texts: %d", test.Quarantined, len(test.Findings))
		}
		checks = append(checks, c)
	}
	if len(a.allManagers()) == 0 {
		checks = append(checks, Check{
			Name: "sources", Status: CheckWarn, Detail: "no sources configured",
			Fix: "toolroom sources add NAME -- COMMAND, or toolroom import claude",
		})
	}
	for _, u := range a.Unmatched() {
		checks = append(checks, Check{Name: "rules", Status: CheckWarn, Detail: u.String(), Fix: u.Hint()})
	}
	if a.Config().Builtin.On("git", true) && a.manager("git") != nil {
		checks = append(checks, Check{Name: "tools git", Status: CheckInfo, Detail: gitIsASource, Fix: "rename the source for the built-in tools"})
	}
	tell("the packs and the network")
	checks = append(checks, a.checkPacks(ctx)...)
	checks = append(checks, a.checkNetwork()...)
	tell("the runtimes, by starting a sandbox of each kind")
	checks = append(checks, a.checkEngines(ctx)...)
	tell("the processes that wait for calls")
	return append(checks, a.checkWarm(ctx)...)
}

func (a *App) checkHome() Check {
	c := Check{Name: "home", Status: CheckOK, Detail: a.home}
	probe, err := os.CreateTemp(a.home, ".doctor-*")
	if err != nil {
		c.Status, c.Detail, c.Fix = CheckFail, err.Error(), "make the folder writable, or choose another one with --home"
		return c
	}
	probe.Close()
	os.Remove(probe.Name())
	if info, err := os.Stat(a.home); err == nil && info.Mode().Perm()&0o077 != 0 && runtime.GOOS != "windows" {
		c.Status, c.Fix = CheckWarn, "chmod 700 "+filepath.Clean(a.home)
		c.Detail += ": other users can read it"
	}
	return c
}

func (a *App) checkReceipts(ctx context.Context) Check {
	c := Check{Name: "receipts", Status: CheckOK}
	if err := a.recorder.Ready(); err != nil {
		c.Status, c.Detail, c.Fix = CheckFail, err.Error(), "free up the disk or unlock the database; until then calls are refused"
		return c
	}
	n, err := a.VerifyReceipts(ctx)
	c.Detail = fmt.Sprintf("%d, hash chain intact", n)
	if err != nil {
		c.Status, c.Detail, c.Fix = CheckFail, err.Error(), "the store was modified outside Toolroom; keep a copy and investigate"
	}
	return c
}

func checkSystem() Check {
	c := Check{Name: "system", Status: CheckOK, Detail: runtime.GOOS + "/" + runtime.GOARCH}
	if runtime.GOOS != "linux" {
		c.Status = CheckWarn
		c.Detail += ": if the server is killed, the processes of its sources may keep running"
		c.Fix = "run Toolroom on Linux if that matters"
	}
	return c
}

// Missing is a program or document that a source of the config names and this machine does
// not have. It may be installed later, or be on the machine where the config is used.
type Missing struct{ Key, Reason, Hint string }

// FindMissing returns the programs and documents of a config's sources that this machine
// does not have.
func FindMissing(c *config.Config, file string) []Missing {
	var all []Missing
	for _, name := range slices.Sorted(maps.Keys(c.Sources)) {
		s := c.Sources[name]
		if s.Disabled || s.Sandbox != nil && s.Sandbox.Runtime != "" {
			continue
		}
		key := "sources." + name
		program := func(key, command string, env map[string]string) {
			if _, other := env["PATH"]; other || command == "" || strings.Contains(command, "/") {
				return
			}
			if _, err := exec.LookPath(command); errors.Is(err, exec.ErrNotFound) {
				all = append(all, Missing{key, "there is no program " + command + " in the folders of PATH", "check its spelling, install it, or give its full path"})
			}
		}
		switch {
		case s.MCP != nil:
			program(key+".mcp.command", s.MCP.Command, s.MCP.Env)
		case s.CLI != nil:
			program(key+".cli.command", s.CLI.Command, s.CLI.Env)
		case s.OpenAPI != nil && !strings.Contains(s.OpenAPI.Spec, "://"):
			spec := s.OpenAPI.Spec
			if !filepath.IsAbs(spec) {
				spec = filepath.Join(filepath.Dir(file), spec)
			}
			if _, err := os.Stat(spec); errors.Is(err, fs.ErrNotExist) {
				all = append(all, Missing{key + ".openapi.spec", "there is no file " + spec, "check its spelling"})
			}
		}
	}
	return all
}
