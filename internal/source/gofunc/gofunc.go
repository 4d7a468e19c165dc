// Package gofunc implements a source for Go functions. [New] wraps a typed function as a
// tool, and a [Source] offers it to a catalog.
package gofunc

import (
	"context"
	"encoding/json"
	"reflect"
	"sync"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/deadline"
	"github.com/toolroom/toolroom/internal/jsonx"
	"github.com/toolroom/toolroom/internal/schema"
	"github.com/toolroom/toolroom/source"
)

// Handler is a tool function on raw JSON.
type Handler func(ctx context.Context, req *source.Request) (*source.Output, error)

// Func is a tool and its function.
type Func struct {
	Tool    toolroom.Tool
	Handler Handler
}

// New wraps a typed function as a tool. If the tool has no schemas, New infers them from
// In, a struct or a map with string keys, and Out; an Out of type any has none. The error
// names the type that has no schema.
func New[In, Out any](tool toolroom.Tool, f func(context.Context, In) (Out, error)) (Func, error) {
	tool.Source = toolroom.SourceGo
	if len(tool.InputSchema) == 0 {
		inferred, err := schema.For[In]()
		if err != nil {
			return Func{}, toolroom.Errorf(toolroom.CodeInvalidArguments, "%s: no input schema for %v: %w", tool.ID, reflect.TypeFor[In](), err)
		}
		tool.InputSchema = inferred
	}
	if len(tool.OutputSchema) == 0 && promises[Out]() {
		inferred, err := schema.InferResult(reflect.TypeFor[Out]())
		if err != nil {
			return Func{}, toolroom.Errorf(toolroom.CodeInvalidArguments, "%s: no output schema for %v: %w", tool.ID, reflect.TypeFor[Out](), err)
		}
		tool.OutputSchema = inferred
	}
	return Func{Tool: tool, Handler: func(ctx context.Context, req *source.Request) (*source.Output, error) {
		var in In
		if err := jsonx.Unmarshal(req.Arguments, &in, jsonx.Limits{Bytes: len(req.Arguments)}); err != nil {
			return nil, toolroom.Errorf(toolroom.CodeInvalidArguments, "the arguments do not fit %T: %w", in, err)
		}
		out, err := f(ctx, in)
		if err != nil {
			return nil, err
		}
		return encode(out)
	}}, nil
}

// promises reports whether the type Out constrains the value.
func promises[Out any]() bool {
	t := reflect.TypeFor[Out]()
	switch t {
	case reflect.TypeFor[any](), reflect.TypeFor[json.RawMessage](), reflect.TypeFor[[]toolroom.Content](), reflect.TypeFor[*source.Output]():
		return false
	}
	return true
}

func encode(out any) (*source.Output, error) {
	switch out := out.(type) {
	case *source.Output:
		return out, nil
	case []toolroom.Content:
		return &source.Output{Content: out}, nil
	case json.RawMessage:
		return &source.Output{Value: out}, nil
	}
	value, err := jsonx.Marshal(out)
	if err != nil {
		return nil, toolroom.Errorf(toolroom.CodeInvalidOutput, "the value cannot be written as JSON: %w", err)
	}
	return &source.Output{Value: value}, nil
}

// Source offers Go functions. The zero Source is ready to use. Its methods are safe for
// concurrent use.
type Source struct {
	mu    sync.RWMutex
	funcs map[toolroom.ID]Func
	calls deadline.Calls
}

// Put adds or replaces a function.
func (s *Source) Put(f Func) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.funcs == nil {
		s.funcs = map[toolroom.ID]Func{}
	}
	s.funcs[f.Tool.ID.Unversioned()] = f
}

// Remove removes a function.
func (s *Source) Remove(id toolroom.ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.funcs, id.Unversioned())
}

// Tools lists the functions.
func (s *Source) Tools(context.Context) ([]toolroom.Tool, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	tools := make([]toolroom.Tool, 0, len(s.funcs))
	for _, f := range s.funcs {
		tools = append(tools, f.Tool)
	}
	return tools, nil
}

// Only returns a source of one function, with which a catalog replaces tool and function
// at the same time. Its calls end when s is closed.
func (s *Source) Only(f Func) source.Source { return &only{f, s} }

type only struct {
	f    Func
	from *Source
}

func (o *only) Tools(context.Context) ([]toolroom.Tool, error) { return []toolroom.Tool{o.f.Tool}, nil }

func (o *only) Call(ctx context.Context, req *source.Request) (*source.Output, error) {
	return o.from.call(ctx, o.f, req)
}

// Close does nothing, because the Source of the function ends its calls.
func (o *only) Close() error { return nil }

type requestKey struct{}

// Call runs a function. A function that ignores its context cannot be ended.
func (s *Source) Call(ctx context.Context, req *source.Request) (*source.Output, error) {
	s.mu.RLock()
	f, ok := s.funcs[req.Tool.Unversioned()]
	s.mu.RUnlock()
	if !ok {
		return nil, toolroom.Errorf(toolroom.CodeToolNotFound, "Go function %s not found", req.Tool)
	}
	return s.call(ctx, f, req)
}

func (s *Source) call(ctx context.Context, f Func, req *source.Request) (*source.Output, error) {
	ctx, done, err := s.calls.Begin(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	return f.Handler(context.WithValue(ctx, requestKey{}, req), req)
}

// Close ends the calls and waits until the functions have returned. It is
// idempotent.
func (s *Source) Close() error {
	s.calls.Close()
	return nil
}

// Emit sends an event from within a function, with the ctx of its call. It does nothing
// with any other ctx.
func Emit(ctx context.Context, e toolroom.Event) {
	if req, ok := ctx.Value(requestKey{}).(*source.Request); ok {
		req.Emit(e)
	}
}

// Caller returns the identity that called a function, with the ctx of its call.
func Caller(ctx context.Context) toolroom.Identity {
	if req, ok := ctx.Value(requestKey{}).(*source.Request); ok {
		return req.Identity
	}
	return toolroom.Identity{}
}
