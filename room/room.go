// Package room embeds Toolroom in Go programs. A room holds tools, finds them, checks who
// may call them, runs them and stores the receipts.
//
//	r, err := room.Open(ctx, room.Options{})
//	if err != nil { … }
//	defer r.Close()
//	room.Register(r, "math:add", "Add two numbers.", func(ctx context.Context, in Numbers) (int, error) {
//		return in.A + in.B, nil
//	})
//	result := r.Run(ctx, toolroom.Call{Tool: "math:add", Arguments: toolroom.Args{"a": 1, "b": 2}.JSON()})
//
// Start with [Open], [Register] and [Room.Run], then see [Room.Search], [Room.Stream],
// [Room.Chain] and [Room.Execute]. The examples are named by task.
package room

import (
	"context"
	"io"
	"log/slog"

	"github.com/toolroom/toolroom/internal/app"
	"github.com/toolroom/toolroom/sandbox"
	"github.com/toolroom/toolroom/source"
)

// Options configure a room. The zero value opens a room in a temporary folder, without
// sources, that permits everything.
type Options struct {
	// Home is the folder that holds all state. It is created if it is missing. If Home is
	// empty, a temporary folder is used, which Close removes.
	Home string
	// Workspace is the folder in which the built-in tools work unless the config names
	// others. If it is empty, only those packs are on that have a section in the config.
	Workspace string
	// ConfigFile is the toolroom.yaml to read; empty reads none.
	ConfigFile string
	// Verify, if not nil, is asked about the content of the config, and of each file that it
	// names and that decides what may run, before it is used.
	Verify func(path string, text []byte) error
	// Environ is the environment that child processes may inherit from, in the form of
	// os.Environ. Nil means the environment of this process. Children inherit only few
	// variables.
	Environ []string
	// Log receives warnings and errors; nil discards them.
	Log *slog.Logger
	// Helper is the path of a binary that calls [RunHelper], usually that of this program
	// (os.Executable). Without it, JavaScript and the built-in sandbox are not available.
	Helper string
	// Guest runs programs inside sandboxes; if it is empty, Helper does.
	Guest Guest
	// Drivers are sandbox drivers besides process, host and those of the config. Programs
	// choose one by its name as their runtime.
	Drivers []sandbox.Driver
	// Receipts receives a line for each call if the config logs receipts to stdout; nil
	// discards them.
	Receipts io.Writer
	// Select returns the index of the offer that serves a tool which several sources
	// have; the offers are in the order of registration. It must be fast and must not use
	// the room. If it is nil, or the index is none, tools of this process come first, then
	// HTTP, OpenAPI and command-line sources, then MCP servers.
	Select func(offers []source.Offer) int
	// Missing is called for a name that no source has a tool for, before the call fails;
	// the function may register the tool, which is then found. An error is the call's,
	// unless the tool is there now. Missing may be called concurrently; nil does nothing.
	Missing func(ctx context.Context, r *Room, name string) error
	// Version is the version that MCP servers and clients see.
	Version string
}

// Guest is the binary that runs programs inside sandboxes.
type Guest struct {
	// Path is the path of a static binary. Args select the guest if it is part of a larger
	// binary.
	Path string
	Args []string
}

// Room is an open room. Its methods are safe for concurrent use.
type Room struct{ app *app.App }

// Open opens a room. It starts no source: each starts at its first use or with
// [Room.Start]. Several processes may open the same home.
func Open(ctx context.Context, o Options) (*Room, error) {
	r := &Room{}
	options := app.Options{
		Home: o.Home, Workspace: o.Workspace, ConfigFile: o.ConfigFile, Verify: o.Verify, Environ: o.Environ, Log: o.Log,
		Helper: o.Helper, Guest: app.Guest(o.Guest), Receipts: o.Receipts, Select: o.Select, Version: o.Version,
		Drivers: func(app.Runtimes) []sandbox.Driver { return o.Drivers },
	}
	if o.Missing != nil {
		options.Missing = func(ctx context.Context, opened *app.App, name string) error {
			return o.Missing(ctx, &Room{opened}, name)
		}
	}
	opened, err := app.Open(ctx, options)
	if err != nil {
		return nil, err
	}
	r.app = opened
	return r, nil
}

// Close ends every source and engine, waits for current calls, and flushes all records. It
// is idempotent. After four minutes it returns an error, and the rest ends in the background.
func (r *Room) Close() error { return r.app.Close() }

// Home returns the folder that holds all state.
func (r *Room) Home() string { return r.app.Home() }

// Start starts the background work of a server: it lists all sources, also again after
// failures, runs submitted calls, starts sandboxes ahead and removes what has expired. The
// work ends with ctx or Close. Idle sandboxes end with Close.
func (r *Room) Start(ctx context.Context) { r.app.Start(ctx) }

// init gives package serve access to the app behind a room, which the public API hides.
func init() { app.OfRoom = func(r any) *app.App { return r.(*Room).app } }

// RunHelper runs this program as a helper process, if a room has started it as one: as a
// worker of an engine, or as a guest in a sandbox. Programs whose own binary is
// [Options.Helper] must call it first in main:
//
//	if code, ok := room.RunHelper(os.Args[1:]); ok {
//		os.Exit(code)
//	}
func RunHelper(args []string) (code int, ok bool) { return app.RunHelper(args) }
