package room

import (
	"context"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/app"
)

// Register makes a Go function a tool. The schemas of its argument, a struct, and of its
// value are inferred from the types. JSON tags name the fields, and a jsonschema tag
// describes them. The function must watch its ctx, because nothing else can end it.
//
// The error is a conflict if the id is already registered or the namespace is reserved.
// After an error nothing has changed.
func Register[In, Out any](r *Room, id, description string, f func(context.Context, In) (Out, error)) error {
	return app.Register(r.app, id, description, f)
}

// RegisterTool is like [Register], for a tool with its own hints, examples, limits or
// schemas.
func RegisterTool[In, Out any](r *Room, tool toolroom.Tool, f func(context.Context, In) (Out, error)) error {
	return app.RegisterTool(r.app, tool, f)
}

// Replace is like [Register], but replaces a function that is already registered under the
// id.
func Replace[In, Out any](r *Room, id, description string, f func(context.Context, In) (Out, error)) error {
	return app.Replace(r.app, id, description, f)
}

// ReplaceTool is like [RegisterTool], but replaces a function that is already registered
// under the id. After an error the old function remains.
func ReplaceTool[In, Out any](r *Room, tool toolroom.Tool, f func(context.Context, In) (Out, error)) error {
	return app.ReplaceTool(r.app, tool, f)
}

// Unregister removes a Go function. It reports whether the function was registered.
func (r *Room) Unregister(id string) bool { return r.app.Unregister(id) }

// Progress reports a function's progress. ctx is the context of the function. Progress may
// block if the caller reads slowly.
func Progress(ctx context.Context, done, total float64, message string) {
	app.Progress(ctx, done, total, message)
}

// Chunk sends a part of a function's output before the function ends.
func Chunk(ctx context.Context, piece any) error { return app.Chunk(ctx, piece) }

// Log sends a log line to the observers of the call. Level is debug, info, warning or
// error.
func Log(ctx context.Context, level, message string) { app.Log(ctx, level, message) }
