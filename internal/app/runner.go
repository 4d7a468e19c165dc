package app

import (
	"cmp"
	"context"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/config"
	"github.com/toolroom/toolroom/internal/proc"
	"github.com/toolroom/toolroom/internal/sandbox/program"
	"github.com/toolroom/toolroom/internal/sandbox/remote"
	"github.com/toolroom/toolroom/sandbox"
)

// RunnerName is the name of the program with the drivers of foreign engines.
const RunnerName = "toolroom-runner"

// The settings of the runner's drivers that are not sections of the config, with secrets
// resolved and paths absolute. They are sent to the runner in JSON.
type (
	// MicroVMSettings are the settings of microvm and firecracker.
	MicroVMSettings struct {
		// Home holds the image. Guest is started by a probe.
		Home  string
		Guest Guest
	}
	// ProxmoxSettings are the settings of proxmox_lxc.
	ProxmoxSettings struct {
		Config config.Proxmox
		// Token and Secret are the values of the secrets that Config refers to. Machine
		// identifies this machine and home, the scope in which process ids are unique.
		Token, Secret, Machine string
	}
	// TemporalSettings are the settings of workflows.
	TemporalSettings struct {
		Config config.Temporal
		Secret string // the value of the secret that Config refers to
	}
)

// openRunner returns the drivers of the runner, and of other programs that the config names.
func (a *App) openRunner() []sandbox.Driver {
	c := a.config.Code.WithImages()
	var drivers []sandbox.Driver
	if name := cmp.Or(c.Runner, a.o.Runner); name != "" {
		a.runnerProgram = program.New(program.Options{
			Name: RunnerName, Find: func() (string, error) { return a.findRunner(name) }, Environ: a.o.Environ, Folder: filepath.Join(a.home, "runner"), Build: a.o.Version, Log: a.log,
		})
		a.programs = append(a.programs, a.runnerProgram)
		drivers = a.runnerDrivers(c)
	}
	for _, name := range slices.Sorted(maps.Keys(c.Programs)) {
		one := c.Programs[name]
		p := program.New(program.Options{
			Name: name, Find: func() (string, error) { return a.findCommand(one.Command) }, Args: one.Args, Environ: proc.Environ(a.o.Environ, one.Env), Folder: filepath.Join(a.home, "runner"), Log: a.log,
		})
		a.programs = append(a.programs, p)
		drivers = append(drivers, p.Driver(name, func(context.Context) (any, error) { return one.Settings, nil }))
	}
	return drivers
}

// runnerDrivers returns the drivers of the runner, in the order of preference.
func (a *App) runnerDrivers(c config.Runtimes) []sandbox.Driver {
	fixed := func(settings any) func(context.Context) (any, error) {
		return func(context.Context) (any, error) { return settings, nil }
	}
	machine := fixed(MicroVMSettings{Home: a.home, Guest: a.o.Guest})
	linux := runtime.GOOS == "linux"
	var drivers []sandbox.Driver
	for _, d := range []struct {
		name     string
		there    bool
		settings func(context.Context) (any, error)
	}{
		{"microvm", a.o.Guest.Path != "", machine},
		{"firecracker", a.o.Guest.Path != "", machine},
		{"gvisor", true, fixed(c.GVisor)},
		{"docker", true, fixed(c.Docker)},
		{"containerd", linux, fixed(c.Containerd)},
		{"kata", linux, fixed(c.Kata)},
		{"kubernetes", true, fixed(c.Kubernetes)},
	} {
		if d.there {
			drivers = append(drivers, a.runnerProgram.Driver(d.name, d.settings))
		}
	}
	return drivers
}

func (a *App) proxmoxSettings(c config.Proxmox) func(context.Context) (any, error) {
	c.CA = a.resolvePath(c.CA)
	c.Runner.CA, c.Runner.Cert, c.Runner.Key = a.resolvePath(c.Runner.CA), a.resolvePath(c.Runner.Cert), a.resolvePath(c.Runner.Key)
	return func(ctx context.Context) (any, error) {
		token, err := a.secretFunc(c.Token)(ctx)
		if err != nil {
			return nil, toolroom.Errorf(toolroom.CodeSandboxUnavailable, "the API token: %w", err).WithCLIHint("use toolroom secret set, and check token of code.runtimes.proxmox_lxc")
		}
		secret, err := a.secretFunc(c.Runner.Secret)(ctx)
		if err != nil {
			return nil, toolroom.Errorf(toolroom.CodeSandboxUnavailable, "the runner's secret: %w", err).WithCLIHint("use toolroom secret set, and check runner.secret of code.runtimes.proxmox_lxc")
		}
		return ProxmoxSettings{Config: c, Token: token, Secret: secret, Machine: a.machine()}, nil
	}
}

// RunnerPath returns the path of the runner.
func (a *App) RunnerPath() (string, error) {
	return a.findRunner(cmp.Or(a.started.Code.Runtimes.Runner, a.o.Runner, RunnerName))
}

func (a *App) findRunner(name string) (string, error) {
	path, err := a.findCommand(name)
	if err == nil {
		return path, nil
	}
	where := "it is neither beside this program nor in PATH"
	if filepath.IsAbs(name) {
		where = name + " is not a program"
	}
	return "", toolroom.Errorf(toolroom.CodeSandboxUnavailable, "%s, the program of this sandbox driver, is missing: %s", RunnerName, where).
		WithHint("install it beside toolroom (every package has both, and make build builds both), or write its path: code: {runtimes: {runner: /path/to/%s}}", RunnerName)
}

// findCommand finds a program by its path or in PATH.
func (a *App) findCommand(name string) (string, error) {
	candidates := []string{a.resolvePath(name)}
	if !strings.ContainsRune(name, filepath.Separator) {
		candidates = nil
		for _, folder := range a.searchPath() {
			candidates = append(candidates, filepath.Join(folder, exe(name)))
		}
	}
	for _, path := range candidates {
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && filepath.IsAbs(path) && (info.Mode()&0o111 != 0 || runtime.GOOS == "windows") {
			return path, nil
		}
	}
	return "", toolroom.Errorf(toolroom.CodeSandboxUnavailable, "there is no program %s", name).WithHint("check code.runtimes.programs")
}

func exe(name string) string {
	if runtime.GOOS == "windows" && filepath.Ext(name) == "" {
		return name + ".exe"
	}
	return name
}

// closePrograms stops the runner and other programs with drivers.
func (a *App) closePrograms() error {
	var first error
	for _, p := range a.programs {
		if err := p.Close(); first == nil {
			first = err
		}
	}
	return first
}

// checkRunner reports whether the runner can be used.
func (a *App) checkRunner(ctx context.Context) []Check {
	if a.runnerProgram == nil {
		return nil
	}
	c := Check{Name: RunnerName, Status: CheckOK}
	path, build, err := a.runnerProgram.Status(ctx)
	if err != nil {
		e := toolroom.AsError(err)
		c.Status, c.Detail, c.Fix = CheckWarn, e.Message, e.Hints()
	} else {
		c.Detail = path + ", build " + build
	}
	return []Check{c}
}

// distantDrivers returns the drivers that run programs on other machines.
func (a *App) distantDrivers(c config.Runtimes) []sandbox.Driver {
	var drivers []sandbox.Driver
	if c.Remote.URL != "" {
		drivers = append(drivers, remote.New(a.remoteOptions(c.Remote)))
	}
	if c.Proxmox.URL != "" && a.runnerProgram != nil {
		drivers = append(drivers, a.runnerProgram.Driver("proxmox_lxc", a.proxmoxSettings(c.Proxmox)))
	}
	return drivers
}
