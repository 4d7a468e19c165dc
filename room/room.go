// Package room embeds Toolroom in Go programs. A room holds tools, finds them, checks who
// may call them, runs them and stores the receipts.
//
//	r, err := room.Open(ctx, room.Options{})
//	if err != nil { … }
//	defer r.Close()
//	room.Register(r, "math:add", "Add two numbers.", func(ctx context.Context, in Numbers) (int, error) {
//		return in.A + in.B, nil
//	})
//	result := r.Run(ctx, toolroom.Call{Tool: "math:add", Arguments: room.Args{"a": 1, "b": 2}.JSON()})
//
// Start with [Open], [Register] and [Room.Run], then see [Room.Search], [Room.Stream],
// [Room.Chain] and [Room.Batch].
package room

import (
	"context"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/app"
)

// The types of a room.
type (
	Room          = app.App
	Options       = app.Options
	Offer         = app.Offer
	Args          = app.Args
	Guest         = app.Guest
	Runtimes      = app.Runtimes
	Program       = app.Program
	Step          = app.Step
	ChainResult   = app.ChainResult
	Job           = app.Job
	SearchOptions = app.SearchOptions
	Found         = app.Found
	ListOptions   = app.ListOptions
	Page          = app.Page
	Level         = app.Level
	Form          = app.Form
	Description   = app.Description
	SourceOptions = app.SourceOptions
	Change        = app.Change
	AgentTool     = app.AgentTool
)

// Open opens a room. It starts no source: each starts at its first use or with
// [Room.Start]. Several processes may open the same home.
func Open(ctx context.Context, o Options) (*Room, error) { return app.Open(ctx, o) }

// Register makes a Go function a tool; see [app.Register].
func Register[In, Out any](r *Room, id, description string, f func(context.Context, In) (Out, error)) error {
	return app.Register(r, id, description, f)
}

// RegisterTool makes a Go function a tool; see [app.RegisterTool].
func RegisterTool[In, Out any](r *Room, tool toolroom.Tool, f func(context.Context, In) (Out, error)) error {
	return app.RegisterTool(r, tool, f)
}

// Replace registers a tool in place of another; see [app.Replace].
func Replace[In, Out any](r *Room, id, description string, f func(context.Context, In) (Out, error)) error {
	return app.Replace(r, id, description, f)
}

// ReplaceTool registers a tool in place of another; see [app.ReplaceTool].
func ReplaceTool[In, Out any](r *Room, tool toolroom.Tool, f func(context.Context, In) (Out, error)) error {
	return app.ReplaceTool(r, tool, f)
}

// Progress reports the progress of the current call.
func Progress(ctx context.Context, done, total float64, message string) {
	app.Progress(ctx, done, total, message)
}

// Chunk emits a piece of the current call's result.
func Chunk(ctx context.Context, piece any) error { return app.Chunk(ctx, piece) }

// Log emits a line of the current call's log.
func Log(ctx context.Context, level, message string) { app.Log(ctx, level, message) }

// RunHelper runs the helper of a room if args are those of one.
func RunHelper(args []string) (code int, ok bool) { return app.RunHelper(args) }

// ReadModule reads a WebAssembly module from a file.
func ReadModule(path string) ([]byte, error) { return app.ReadModule(path) }

// PackModule encodes a WebAssembly module as a program's source.
func PackModule(module []byte) ([]byte, error) { return app.PackModule(module) }
