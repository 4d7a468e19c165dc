package app

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/builtin"
	"github.com/toolroom/toolroom/internal/code"
	"github.com/toolroom/toolroom/internal/config"
	"github.com/toolroom/toolroom/internal/egress"
	"github.com/toolroom/toolroom/internal/engine"
	"github.com/toolroom/toolroom/internal/engine/install"
	"github.com/toolroom/toolroom/internal/engine/js"
	"github.com/toolroom/toolroom/internal/engine/module"
	"github.com/toolroom/toolroom/internal/engine/monty"
	"github.com/toolroom/toolroom/internal/engine/py"
	"github.com/toolroom/toolroom/internal/engine/pynative"
	"github.com/toolroom/toolroom/internal/engine/pyodide"
	"github.com/toolroom/toolroom/internal/engine/quickjs"
	"github.com/toolroom/toolroom/internal/guest"
	hostdriver "github.com/toolroom/toolroom/internal/sandbox/host"
	"github.com/toolroom/toolroom/internal/sandbox/process"
	"github.com/toolroom/toolroom/internal/session"
	"github.com/toolroom/toolroom/sandbox"
)

// Runtimes are the config's settings of sandbox runtimes.
type Runtimes = config.Runtimes

// Guest is the binary that runs programs inside sandboxes.
type Guest struct {
	// Path is the path of a static binary. Args select the guest if it is part of a larger
	// binary.
	Path string
	Args []string
}

// Execute runs a program that can call the tools of this room, as the caller in as. Like
// Run, it always returns a result.
func (a *App) Execute(ctx context.Context, as toolroom.Call, p toolroom.Program) (*toolroom.Result, error) {
	call, err := a.ExecuteCall(as, p)
	if err != nil {
		return nil, err
	}
	return a.Run(ctx, call), nil
}

// ExecuteCall returns the call that runs a program, for Stream and Submit. If the program
// has no timeout of its own, it has the caller's. Languages may be abbreviated: js, ts, py,
// sh.
func (a *App) ExecuteCall(as toolroom.Call, p toolroom.Program) (toolroom.Call, error) {
	if language, ok := code.Language(p.Language); ok {
		p.Language = language
	}
	if p.TimeoutMS == 0 {
		p.TimeoutMS = as.Timeout.Milliseconds()
	}
	arguments, err := (&code.Request{Program: p}).Arguments()
	as.Tool, as.Arguments, as.Timeout = code.Tool, arguments, 0
	return as, err
}

// Engines lists the engines that programs can run on, with their status.
func (a *App) Engines(ctx context.Context) []sandbox.Status {
	list := make([]sandbox.Status, len(a.engines))
	for i, e := range a.engines {
		list[i] = sandbox.Status{Name: e.Name(), Languages: e.Languages(), Probe: e.Probe(ctx)}
	}
	if w := a.workflows; w != nil {
		p := w.Probe(ctx)
		list = append(list, sandbox.Status{Name: w.Name(), Languages: p.Languages, Probe: p})
	}
	return list
}

// openCode adds code mode to the catalog.
func (a *App) openCode(ctx context.Context) error {
	if a.o.Helper != "" && a.o.Guest.Path == "" {
		a.o.Guest = Guest{Path: a.o.Helper, Args: []string{guest.MainArg}}
	}
	init := a.sandboxInit()
	if g := a.o.Guest; g.Path != "" {
		if a.o.Helper != "" {
			a.engines = append(a.engines, js.New(js.Options{
				Command: slices.Concat([]string{g.Path}, g.Args, []string{quickjs.WorkerArg}), Init: init, CacheDir: filepath.Join(a.home, "cache", "wasm"),
			}), module.New(module.Options{Command: []string{a.o.Helper, module.WorkerArg}, Init: init}))
		}
		a.engines = append(a.engines, monty.New(monty.Options{Find: a.findMonty, Init: init}), pynative.New(pynative.Options{Init: init}))
		if a.o.Helper != "" {
			a.engines = append(a.engines, a.openPython(init))
		}
		driver := process.New(g.Path, g.Args)
		driver.Cache = filepath.Join(a.home, "cache", "process")
		a.addDrivers(driver)
	}
	if a.o.Drivers != nil {
		a.addDrivers(a.o.Drivers(a.config.Code.WithImages())...)
	}
	a.addDrivers(a.openRunner()...)
	a.addDrivers(a.distantDrivers(a.config.Code.Runtimes)...)
	if a.o.Guest.Path != "" {
		a.engines = append(a.engines, a.openPyodide(init)) // last, because it is slow to start and to probe
	}
	a.addDrivers(&hostdriver.Driver{Owner: a.owner, Environ: a.o.Environ})
	a.openWorkflows()
	if a.config.Code.Disabled {
		return nil
	}
	guard, err := programGuard(a.config)
	if err != nil {
		return err
	}
	a.code = code.New(code.Options{
		Runner: a.runner, Catalog: a.catalog, Artifacts: a.artifacts, Sessions: a.sessions, Journals: a.store, Engines: a.engines, Remote: a.remote(), Egress: guard,
		AddProgram: a.openProgram,
		Guest:      a.o.Guest.Path, GuestArgs: a.o.Guest.Args, Config: codeConfig(a.config.Code),
	})
	tools, err := a.code.Tools(ctx)
	if err != nil {
		return err
	}
	for i := range tools {
		tools[i].Keywords = builtin.Keywords(tools[i].ID.String())
	}
	return a.catalog.SetBuiltin("code", a.code, tools)
}

// openPython creates the engine py. Its sandboxes start with init.
func (a *App) openPython(init []string) engine.Engine {
	return py.New(py.Options{Command: []string{a.o.Helper, py.WorkerArg}, Init: init, CacheDir: filepath.Join(a.home, "cache", "python")})
}

func sessionLimits(c config.CodeSessions) session.Limits {
	return session.Limits{Sessions: c.Entries, Bytes: c.Bytes, Total: c.TotalBytes, Each: c.EntryBytes, Idle: c.Idle}
}

// findMonty finds the worker of the engine py-lite, which is not part of this binary.
func (a *App) findMonty() (string, error) {
	return a.findInstalled(install.Monty().Find)
}

// findInstalled calls find with the home and PATH, to find an installed program.
func (a *App) findInstalled(find func(home, searchPath string) (string, error)) (string, error) {
	searchPath, _ := a.lookupEnv("PATH")
	return find(a.home, searchPath)
}

// openPyodide creates the engine pyodide. Its parts must be installed in the home or be on
// PATH. Its sandboxes start with init.
func (a *App) openPyodide(init []string) engine.Engine {
	find := func() (pyodide.Installed, error) {
		deno, err := a.findInstalled(install.Deno().Find)
		if err != nil {
			return pyodide.Installed{}, err
		}
		folder, err := a.findInstalled(install.Pyodide().Find)
		return pyodide.Installed{Deno: deno, Pyodide: folder, Files: install.Pyodide().Members()}, err
	}
	return pyodide.New(pyodide.Options{Find: find, Init: init, CacheDir: filepath.Join(a.home, "cache", "pyodide")})
}

func codeConfig(c config.Code) code.Config {
	return code.Config{
		Host: c.Host, Default: executionLimits(c.Default), Max: executionLimits(c.Max), Parallel: c.Parallel,
	}
}

func executionLimits(l config.CodeLimits) toolroom.ExecutionLimits {
	return toolroom.ExecutionLimits{Wall: l.Timeout, CPU: l.CPU, CPUs: l.CPUs, Memory: l.Memory, Output: l.Output, Calls: l.Calls, PIDs: l.PIDs, Disk: l.Disk}
}

// programGuard returns the egress guard for programs' connections.
func programGuard(c *config.Config) (*egress.Guard, error) {
	return egress.New(c.Egress.Policy(c.Code.Egress))
}

// ReadModule reads a WebAssembly module from a file, for [toolroom.Program], and compresses
// it: modules are often larger than the arguments of a call may be (4 MiB, unless the
// config changes that).
func ReadModule(path string) ([]byte, error) {
	module, err := os.ReadFile(path)
	if err != nil {
		return nil, toolroom.Errorf(toolroom.CodeNotFound, "cannot read the module: %w", err)
	}
	return PackModule(module)
}

// PackModule compresses a WebAssembly module for [toolroom.Program].
func PackModule(module []byte) ([]byte, error) {
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	_, err := w.Write(module)
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		return nil, fmt.Errorf("pack the module: %w", err)
	}
	return packed.Bytes(), nil
}
