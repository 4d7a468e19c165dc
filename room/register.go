package room

import (
	"context"
	"encoding/json"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/builtin/system"
	"github.com/toolroom/toolroom/internal/jsonx"
	"github.com/toolroom/toolroom/internal/source/gofunc"
)

// Register makes a Go function a tool. The schemas of its arguments, a struct,
// and of its value are inferred from the types; json tags name the fields, and
// a jsonschema tag describes them. The function must watch its ctx: nothing
// else can end it.
func Register[In, Out any](r *Room, id, description string, f func(context.Context, In) (Out, error)) error {
	parsed, err := toolroom.ParseID(id)
	if err != nil {
		return err
	}
	return RegisterTool(r, toolroom.Tool{ID: parsed, Description: description}, f)
}

// RegisterTool is Register for a tool with hints, examples, limits or schemas of
// its own.
func RegisterTool[In, Out any](r *Room, tool toolroom.Tool, f func(context.Context, In) (Out, error)) error {
	wrapped, err := gofunc.New(tool, f)
	if err != nil {
		return err
	}
	return r.register(wrapped)
}

func (r *Room) register(f gofunc.Func) error {
	r.funcs.Put(f)
	if err := r.catalog.Register(goProvider, r.funcs, f.Tool); err != nil {
		r.funcs.Remove(f.Tool.ID)
		return err
	}
	return nil
}

// goProvider is the catalog's name for the functions of this program.
const goProvider = "go"

// Unregister takes a Go function out. It reports whether it was there.
func (r *Room) Unregister(id string) bool {
	parsed, err := toolroom.ParseID(id)
	if err != nil {
		return false
	}
	r.funcs.Remove(parsed)
	return r.catalog.Unregister(goProvider, parsed)
}

func (r *Room) registerBuiltins() error {
	r.funcs = &gofunc.Source{}
	builtins, err := system.Tools(r.o.Version)
	if err != nil {
		return err
	}
	for _, f := range builtins {
		if err := r.register(f); err != nil {
			return err
		}
	}
	return nil
}

// Progress tells how far a function has come, through the ctx that it was
// given. It may block while the caller is slow to read.
func Progress(ctx context.Context, done, total float64, message string) {
	gofunc.Emit(ctx, toolroom.Event{Kind: toolroom.EventProgress, Progress: &toolroom.Progress{Done: done, Total: total, Message: message}})
}

// Chunk sends a piece of a function's output before its end.
func Chunk(ctx context.Context, piece any) error {
	data, err := jsonx.Marshal(piece)
	if err != nil {
		return err
	}
	gofunc.Emit(ctx, toolroom.Event{Kind: toolroom.EventChunk, Chunk: json.RawMessage(data)})
	return nil
}

// Log sends a line to whoever watches the call. Level is debug, info, warning or
// error.
func Log(ctx context.Context, level, message string) {
	gofunc.Emit(ctx, toolroom.Event{Kind: toolroom.EventLog, Log: &toolroom.Log{Level: level, Message: message}})
}
