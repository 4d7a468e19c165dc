package app

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/builtin/system"
	"github.com/toolroom/toolroom/internal/catalog"
	"github.com/toolroom/toolroom/internal/jsonx"
	"github.com/toolroom/toolroom/internal/panics"
	"github.com/toolroom/toolroom/internal/source/gofunc"
	"github.com/toolroom/toolroom/source"
)

// Register makes a Go function a tool. The schemas of its argument, a struct, and of its
// value are inferred from the types. JSON tags name the fields, and a jsonschema tag
// describes them. The function must watch its ctx, because nothing else can end it.
//
// The error is a conflict if the id is already registered or the namespace is reserved.
// After an error nothing has changed.
func Register[In, Out any](r *App, id, description string, f func(context.Context, In) (Out, error)) error {
	return named(id, description, func(tool toolroom.Tool) error { return RegisterTool(r, tool, f) })
}

// RegisterTool is like [Register], for a tool with its own hints, examples, limits or
// schemas.
func RegisterTool[In, Out any](r *App, tool toolroom.Tool, f func(context.Context, In) (Out, error)) error {
	return addFunction(r.catalog.Add, r, tool, f)
}

// Replace is like [Register], but replaces a function that is already registered under the
// id.
func Replace[In, Out any](r *App, id, description string, f func(context.Context, In) (Out, error)) error {
	return named(id, description, func(tool toolroom.Tool) error { return ReplaceTool(r, tool, f) })
}

// ReplaceTool is like [RegisterTool], but replaces a function that is already registered
// under the id. After an error the old function remains.
func ReplaceTool[In, Out any](r *App, tool toolroom.Tool, f func(context.Context, In) (Out, error)) error {
	return addFunction(r.catalog.Register, r, tool, f)
}

func named(id, description string, register func(toolroom.Tool) error) error {
	parsed, err := toolroom.ParseID(id)
	if err != nil {
		return err
	}
	return register(toolroom.Tool{ID: parsed, Description: description})
}

func addFunction[In, Out any](to func(string, source.Source, toolroom.Tool) error, r *App, tool toolroom.Tool, f func(context.Context, In) (Out, error)) error {
	wrapped, err := gofunc.New(tool, f)
	if err != nil {
		return err
	}
	return to(goProvider, r.funcs.Only(wrapped), wrapped.Tool)
}

// goProvider is the provider name of this program's functions in the catalog.
const goProvider = "go"

// Unregister removes a Go function. It reports whether the function was registered.
func (a *App) Unregister(id string) bool {
	parsed, err := toolroom.ParseID(id)
	if err != nil {
		return false
	}
	return a.catalog.Unregister(goProvider, parsed)
}

func (a *App) registerBuiltins() error {
	a.funcs = &gofunc.Source{}
	builtins, err := system.Tools(a.o.Version)
	if err != nil {
		return err
	}
	tools := make([]toolroom.Tool, len(builtins))
	for i, f := range builtins {
		a.funcs.Put(f)
		tools[i] = f.Tool
	}
	return a.catalog.SetBuiltin("system", a.funcs, tools)
}

// logShared logs which source serves a tool that several sources offer.
func (a *App) logShared(id toolroom.ID, serves string, providers []string) {
	a.log.Warn("several sources offer the same tool", "tool", id.String(), "serves", serves, "sources", providers)
}

// Progress reports a function's progress. ctx is the context of the function. Progress may
// block if the caller reads slowly.
func Progress(ctx context.Context, done, total float64, message string) {
	gofunc.Emit(ctx, toolroom.Event{Kind: toolroom.EventProgress, Progress: &toolroom.Progress{Done: done, Total: total, Message: message}})
}

// Chunk sends a part of a function's output before the function ends.
func Chunk(ctx context.Context, piece any) error {
	data, err := jsonx.Marshal(piece)
	if err != nil {
		return err
	}
	gofunc.Emit(ctx, toolroom.Event{Kind: toolroom.EventChunk, Chunk: json.RawMessage(data)})
	return nil
}

// Log sends a log line to the observers of the call. Level is debug, info, warning or
// error.
func Log(ctx context.Context, level, message string) {
	gofunc.Emit(ctx, toolroom.Event{Kind: toolroom.EventLog, Log: &toolroom.Log{Level: level, Message: message}})
}

// OnChange calls f with the changes of the room's tools, in order, until stop is called.
// Changes that come within 150 ms of one another come together. f is not called
// concurrently; while it runs, later changes wait.
func (a *App) OnChange(f func([]toolroom.Change)) (stop func()) {
	return a.catalog.Subscribe(func(group []toolroom.Change) {
		panics.Log(a.log, "a subscriber of changes", func() { f(slices.Clone(group)) })
	})
}

// selector returns the catalog's selector for [Options.Select], or nil for nil.
func selector(choose func([]source.Offer) int) catalog.Selector {
	if choose == nil {
		return nil
	}
	return func(entries []*catalog.Entry) *catalog.Entry {
		if len(entries) == 1 {
			return entries[0]
		}
		offers := make([]source.Offer, len(entries))
		for i, e := range entries {
			offers[i] = source.Offer{Source: e.Provider, Tool: e.Tool}
		}
		chosen := -1
		if panics.Catch(func() { chosen = choose(offers) }) != nil || chosen < 0 || chosen >= len(entries) {
			return catalog.LocalFirst(entries)
		}
		return entries[chosen]
	}
}
