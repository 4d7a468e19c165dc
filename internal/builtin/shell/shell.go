// Package shell provides the built-in tools that run commands: shell:exec, and process:start
// with its companions. Commands run in a sandbox of this machine that has the configured
// folders and the installed programs, and no network unless the config permits it. They run
// without a sandbox only if the config chooses the runtime host.
package shell

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/builtin"
	"github.com/toolroom/toolroom/internal/builtin/folder"
	"github.com/toolroom/toolroom/internal/effects"
	"github.com/toolroom/toolroom/internal/lockdown"
	"github.com/toolroom/toolroom/internal/proc"
	"github.com/toolroom/toolroom/internal/restrict"
	"github.com/toolroom/toolroom/source"
)

// The runtimes.
const (
	RuntimeProcess = "process"
	RuntimeHost    = "host"
)

// Options configure the packs.
type Options struct {
	Folders *folder.Folders
	// Runtime is RuntimeProcess, RuntimeHost, or the name of a sandbox driver.
	Runtime string
	// Drivers starts commands in the sandboxes of drivers.
	Drivers Drivers
	// Network lets commands in the sandbox use the network of this machine.
	Network bool
	// Proxy serves the egress proxy of a command in the sandbox until done is closed. The
	// command reaches the network only through it. If Proxy is nil, commands without Network
	// have no network.
	Proxy func(l net.Listener, done <-chan struct{})
	// Init is the command that becomes the init of a sandbox; see [lockdown.HostMachine].
	// Empty means that this program cannot start sandboxes.
	Init []string
	// Environ is the environment of this process, and Env returns additional variables,
	// which may hold secrets.
	Environ []string
	Env     func(context.Context) (map[string]string, error)
	// Owner labels processes; see [proc.Owner].
	Owner string
	// State is the folder for the state and the homes of sessions; empty keeps nothing.
	State string
	// HomeSize is the maximum size of a home in State, in bytes; 0 means no limit.
	HomeSize int64
	// Scratch is an existing folder for temporary files of this package.
	Scratch string
	Limits  lockdown.Limits
	// Start starts a program without a sandbox and enforces rules on it, as in
	// [source.Request.Forbidden]. Enforces reports whether it can do so on this machine. If
	// Start is nil, there are no rules.
	Start    func(proc.Spec, []toolroom.Effect) (*proc.Process, error)
	Enforces func() bool
}

// Shell runs commands. Make one with [New].
type Shell struct {
	o       Options
	machine *lockdown.HostMachine
	table   processTable
	homes   homes

	author      sync.Once
	name, email string
}

// New returns a Shell, whose packs must be closed.
func New(o Options) *Shell {
	return &Shell{o: o, machine: &lockdown.HostMachine{Init: o.Init}}
}

// Pack returns shell:exec. If missing is not nil, it returns that error.
func (s *Shell) Pack(missing *toolroom.Error) *builtin.Pack {
	return s.pack("shell", missing, s.exec())
}

// ProcessPack returns the tools for background processes.
func (s *Shell) ProcessPack(missing *toolroom.Error) *builtin.Pack {
	p := s.pack("process", missing, s.start(), s.status(), s.output(), s.write(), s.kill(), s.list())
	p.Close = s.close
	return p
}

func (s *Shell) pack(name string, missing *toolroom.Error, tools ...builtin.Tool) *builtin.Pack {
	p := &builtin.Pack{Name: name, Tools: tools, Missing: missing, Isolation: s.Isolation, Enforces: s.enforces}
	if s.o.Folders != nil {
		p.Dir = s.o.Folders.Dir()
	}
	return p
}

// Available returns nil if commands can run, or else an error with the next step.
func (s *Shell) Available(ctx context.Context) *toolroom.Error {
	if s.o.Runtime == RuntimeHost {
		return nil
	}
	if s.inDriver(s.o.Runtime) {
		_, missing := s.o.Drivers.Isolation(ctx, s.o.Runtime)
		return missing
	}
	const hint = "to run commands without a sandbox, as this user, write in toolroom.yaml: builtin: {shell: {runtime: host}}"
	if len(s.o.Init) == 0 {
		return toolroom.Errorf(toolroom.CodeSandboxUnavailable, "this program cannot start sandboxes, so commands do not run").WithHint(hint)
	}
	report := s.machine.Probe(ctx)
	for _, layer := range requiredLayers {
		if f := report.Find(layer); !f.Available {
			return toolroom.Errorf(toolroom.CodeSandboxUnavailable, "commands need the sandbox of this machine, which lacks %s: %s", layer, f.Reason).
				WithHint("%s; or %s", f.Fix, hint)
		}
	}
	return nil
}

// requiredLayers are the isolation layers that the sandbox of a command must have.
var requiredLayers = []lockdown.Layer{lockdown.Namespaces, lockdown.Seccomp}

// runtimeOf returns the runtime of a call: the one in the config, unless policy names another
// for the call.
func (s *Shell) runtimeOf(req *source.Request) string {
	if req.Engine == RuntimeProcess || req.Engine != "" && s.inDriver(req.Engine) {
		return req.Engine
	}
	return s.o.Runtime
}

func (s *Shell) inDriver(runtime string) bool {
	return runtime != RuntimeProcess && runtime != RuntimeHost && s.o.Drivers != nil
}

// Isolation returns the isolation layers of a call's command, or an empty text if it cannot
// run.
func (s *Shell) Isolation(ctx context.Context, req *source.Request) string {
	runtime := s.runtimeOf(req)
	switch {
	case runtime == RuntimeHost:
		return "none"
	case s.inDriver(runtime):
		layers, _ := s.o.Drivers.Isolation(ctx, runtime)
		return layers
	}
	return s.machine.LayersOf(lockdown.Spec{Network: s.o.Network, Minimum: requiredLayers}).String()
}

// enforces reports whether a rule is enforced on commands.
func (s *Shell) enforces(rule toolroom.Effect, predicted []toolroom.Effect) bool {
	if !restrict.Enforceable(rule, predicted) {
		return false
	}
	if s.o.Runtime == RuntimeHost {
		return s.o.Enforces != nil && s.o.Enforces()
	}
	return s.Available(context.Background()) == nil
}

// command is a command to start.
type command struct {
	argv []string
	// runtime is its runtime, as in [Options].
	runtime string
	dir     string
	env     []string
	// stdin is the whole input; nil is empty.
	stdin []byte
	// terminal is the command's terminal; nil if it has pipes. The start takes ownership of it.
	terminal *terminal
	// state is the file 3 of the command; nil if there is none.
	state *os.File
	// rules are [source.Request.Forbidden].
	rules []toolroom.Effect
	// home is the folder that becomes HOME in the sandbox; empty means a temporary one.
	home string
	// servers are the servers that the command reaches on its loopback; nil means none.
	servers *Servers
	// offline and readOnly are as in [Program].
	offline, readOnly bool
}

// shells are the shells that run command lines, best first.
var shells = []string{"/bin/bash", "/usr/bin/bash", "/bin/sh"}

func shellPath() string {
	for _, path := range shells {
		if _, err := os.Stat(path); err == nil {
			return path
		}
	}
	return "/bin/sh"
}

// workingFolder returns the folder in which a command runs: cwd, relative to the folder of the
// session. It returns an error if tools may not use that folder.
func (s *Shell) workingFolder(cwd, session string) (string, error) {
	dir := s.o.Folders.Dir()
	if session != "" {
		dir = session
	}
	switch {
	case cwd == "":
	case filepath.IsAbs(cwd):
		dir = filepath.Clean(cwd)
	default:
		dir = filepath.Join(dir, cwd)
	}
	info, err := s.o.Folders.Stat(dir)
	if session != "" && cwd != "" && !filepath.IsAbs(cwd) && toolroom.CodeOf(err) == toolroom.CodeNotFound {
		return "", toolroom.Errorf(toolroom.CodeNotFound, "%s does not exist", dir).
			WithHint("the session is in %s, where a relative cwd begins: leave cwd out to stay there, or give a full path", session)
	}
	if err != nil {
		return "", err
	}
	if !info.IsDir() {
		return "", toolroom.Errorf(toolroom.CodeInvalidArguments, "%s is not a folder", cwd).
			WithHint("give its folder, %s; a file goes into an argument of its own", filepath.Dir(cwd))
	}
	return dir, nil
}

// prepare sets the home, the environment and the servers of a caller's command. It returns the
// variables of the config.
func (s *Shell) prepare(ctx context.Context, req *source.Request, c *command, state sessionState) (extra map[string]string, err error) {
	if s.o.Env != nil {
		if extra, err = s.o.Env(ctx); err != nil {
			return nil, err
		}
	}
	if c.home, err = s.homeOf(ctx, req, c.runtime); err != nil {
		return nil, err
	}
	if len(c.argv) < 3 || c.argv[1] != "-c" || !freesSpace.MatchString(c.argv[2]) {
		if err := s.checkHome(c.home); err != nil {
			return nil, err
		}
	}
	c.env, c.servers = s.mergeEnv(*c, state.Env, extra), s.Servers(req.Identity)
	return extra, nil
}

// predictEffects returns the predicted effects of a command line in a folder. The sandbox makes
// no difference, because its folders are those of this machine.
func predictEffects(line, dir string) []toolroom.Effect { return effects.ReadShell(line, dir) }

// wallTime returns the time limit of a command.
func wallTime(ms int, fallback time.Duration) time.Duration {
	if ms == 0 {
		return fallback
	}
	return time.Duration(ms) * time.Millisecond
}

func quoteAll(argv []string) string {
	var words []string
	for _, w := range argv {
		if strings.ContainsAny(w, " \t\n'\"\\$`*?[]{}()<>|&;~#!") || w == "" {
			w = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
		}
		words = append(words, w)
	}
	return strings.Join(words, " ")
}
