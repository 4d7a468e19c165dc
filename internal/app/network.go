package app

import (
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/config"
	"github.com/toolroom/toolroom/internal/egress"
	"github.com/toolroom/toolroom/internal/lockdown"
	"github.com/toolroom/toolroom/internal/netjail"
	"github.com/toolroom/toolroom/internal/proc"
	"github.com/toolroom/toolroom/internal/restrict"
)

// programStarter returns the function that starts a source's programs, with the network
// access that the config allows.
func (a *App) programStarter(network string, guard *egress.Guard) func(proc.Spec) (*proc.Process, error) {
	j := a.jail(network, guard)
	if j.HostNetwork {
		return proc.Start
	}
	return j.Start
}

// jailLauncher returns the command that starts programs in a network jail. It is the guest
// if there is one, because that is small.
func (a *App) jailLauncher() []string {
	switch {
	case a.o.Guest.Path != "":
		return slices.Concat([]string{a.o.Guest.Path}, a.o.Guest.Args)
	case a.o.Helper != "":
		return []string{a.o.Helper}
	}
	return nil
}

func (a *App) jail(network string, guard *egress.Guard) *netjail.Jail {
	j := &netjail.Jail{Launcher: a.jailLauncher(), Log: a.log}
	switch network {
	case config.NetworkGuarded:
		j.Guard = guard
	case config.NetworkNone:
	default:
		j.HostNetwork = true
	}
	return j
}

// starterWithRules returns the function that starts programs without a sandbox under the
// policy's rules about effects.
func (a *App) starterWithRules(j *netjail.Jail) func(proc.Spec, []toolroom.Effect) (*proc.Process, error) {
	return func(s proc.Spec, rules []toolroom.Effect) (*proc.Process, error) {
		if len(rules) == 0 && j.HostNetwork {
			return proc.Start(s)
		}
		under, err := j.WithRules(rules, restrict.View{Path: a.searchPath(), Scratch: a.tempFolder()})
		if err != nil {
			return nil, err
		}
		return under.Start(s)
	}
}

// tempFolder returns the folder for temporary files of the server.
func (a *App) tempFolder() string { return filepath.Join(a.packFolder("shell"), "scratch") }

// searchPath returns the absolute folders in PATH.
func (a *App) searchPath() []string {
	path, _ := a.lookupEnv("PATH")
	return slices.DeleteFunc(filepath.SplitList(path), func(dir string) bool { return !filepath.IsAbs(dir) })
}

// enforcesRules reports whether rules can be enforced on programs that run without a
// sandbox. It tries once.
func (a *App) enforcesRules() bool {
	a.enforceOnce.Do(func() {
		if a.o.Helper == "" {
			return
		}
		scratch := a.tempFolder()
		j := &netjail.Jail{Launcher: a.jailLauncher(), Binds: []lockdown.Bind{{Source: scratch, Target: scratch}}}
		// Without arguments the helper only prints how it is used.
		p, err := j.Start(proc.Spec{Command: a.o.Helper, Args: []string{lockdown.JailArg}, Owner: a.owner, Stderr: io.Discard})
		if err != nil {
			a.log.Debug("rules cannot be enforced on programs without a sandbox", "error", err)
			return
		}
		p.Stop(0)
		a.canEnforce = true
	})
	return a.canEnforce
}

// checkNetwork reports which programs use this machine's network, and whether the others
// can be isolated from it.
func (a *App) checkNetwork() []Check {
	c := a.Config()
	unguarded, fenced := 0, 0
	for name, s := range c.Sources {
		switch network := c.NetworkOf(s); {
		case s.Disabled || network == "" || a.manager(name) == nil:
		case network == config.NetworkHost:
			unguarded++
		default:
			fenced++
		}
	}
	checks := a.checkSandboxes()
	if unguarded > 0 {
		checks = append(checks, Check{
			Name: "network of programs", Status: CheckInfo, Detail: fmt.Sprintf("programs without a sandbox that have unrestricted network access: %d of %d", unguarded, unguarded+fenced),
			Fix: "set egress: {network: guarded}, for one source or for all, and check which of them support a proxy",
		})
	}
	if fenced > 0 {
		checks = append(checks, a.checkJail(fenced))
	}
	return checks
}

// checkSandboxes reports which programs of sources run without a sandbox.
func (a *App) checkSandboxes() []Check {
	var free, held []string
	for name, s := range a.Config().Sources {
		switch {
		case s.Disabled || !s.Program() || a.manager(name) == nil:
		case s.Sandbox == nil:
			free = append(free, name)
		default:
			held = append(held, name+" ("+s.Sandbox.Describe()+")")
		}
	}
	slices.Sort(free)
	slices.Sort(held)
	var checks []Check
	if len(held) > 0 {
		checks = append(checks, Check{Name: "sandboxes of sources", Status: CheckOK, Detail: strings.Join(held, ", ")})
	}
	if len(free) > 0 {
		checks = append(checks, Check{
			Name: "programs of sources", Status: CheckInfo, Detail: "these have your rights to files and programs: " + strings.Join(free, ", "),
			Fix: "give one a sandbox: {read: [FOLDER], hosts: [HOST]}",
		})
	}
	return checks
}

// checkJail starts a program that does nothing in a network jail.
func (a *App) checkJail(programs int) Check {
	c := Check{Name: "network guard", Status: CheckOK, Detail: fmt.Sprintf("%d programs run in their own network namespace", programs)}
	command, err := exec.LookPath("true")
	if err != nil {
		command = a.o.Helper
	}
	p, err := (&netjail.Jail{Launcher: a.jailLauncher()}).Start(proc.Spec{Command: command, Env: a.o.Environ, Owner: a.owner})
	if err != nil {
		c.Status, c.Detail, c.Fix = CheckFail, err.Error(), "allow user namespaces, or set network: host for those programs"
		return c
	}
	p.Stop(0)
	return c
}

// warnOfProxies warns if the environment names a proxy. Toolroom uses only the proxy of the
// config, so that all rules for outgoing connections are in one place.
func (a *App) warnOfProxies() {
	if a.Config().Egress.Proxy != "" {
		return
	}
	for _, name := range []string{"HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"} {
		if _, set := a.lookupEnv(name); set {
			a.log.Warn("the proxy of the environment is ignored; to use it, write in toolroom.yaml: egress: {proxy: URL}", "variable", name)
			return
		}
	}
}
