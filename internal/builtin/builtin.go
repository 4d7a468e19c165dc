// Package builtin is the base of Toolroom's own tools. A pack is a group of related tools that
// the config turns on or off together. It is a [source.Source] like any other, so its calls are
// subject to policy and approvals and have receipts. [MustTool] makes a tool from a typed
// function, and a [Pack] offers tools to a catalog.
package builtin

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/deadline"
	"github.com/toolroom/toolroom/internal/jsonx"
	"github.com/toolroom/toolroom/internal/schema"
	"github.com/toolroom/toolroom/source"
)

// Spec describes a tool whose arguments are an In and whose value is an Out.
type Spec[In, Out any] struct {
	// Tool is the tool without its schemas and its source.
	Tool toolroom.Tool
	// Arguments adds members to the schemas of arguments, such as enum or default.
	Arguments map[string]Property
	// Predict returns the effects of a call. Nil means that a call has no effects.
	Predict func(req *source.Request, in In) []toolroom.Effect
	// Enforces reports whether a call enforces a rule of policy by itself; see
	// [source.Predictor]. Nil means the pack's Enforces.
	Enforces func(rule toolroom.Effect) bool
	// Preview describes a call to a person; nil means that there is nothing to show.
	Preview func(ctx context.Context, req *source.Request, in In) (source.Preview, error)
	// Run runs the tool. Content is what models and people see; without content they see
	// the value as JSON.
	Run func(ctx context.Context, req *source.Request, in In) (value Out, content []toolroom.Content, err error)
}

// Finisher is implemented by values that change the call's output, for example to mark it as
// failed.
type Finisher interface {
	Finish(out *source.Output)
}

// Property is a set of members of a JSON Schema.
type Property = map[string]any

// Tool is a tool of a pack.
type Tool struct {
	toolroom.Tool
	predict func(req *source.Request) []toolroom.Effect
	// enforces is [Spec.Enforces].
	enforces func(rule toolroom.Effect) bool
	preview  func(ctx context.Context, req *source.Request) (source.Preview, error)
	call     func(ctx context.Context, req *source.Request) (*source.Output, error)
}

// MustTool makes a tool. It panics if a type has no JSON Schema, or if Arguments names an
// argument that does not exist: both are programming mistakes.
func MustTool[In, Out any](s Spec[In, Out]) Tool {
	t := Tool{Tool: s.Tool, enforces: s.Enforces}
	t.Source = toolroom.SourceBuiltin
	t.Keywords = Keywords(t.ID.String())
	var err error
	if t.InputSchema, err = schema.InferWith(reflect.TypeFor[In](), s.Arguments); err != nil {
		panic(fmt.Sprintf("%s: %v", s.Tool.ID, err))
	}
	if t.OutputSchema, err = schema.InferResult(reflect.TypeFor[Out]()); err != nil {
		panic(fmt.Sprintf("%s: %v", s.Tool.ID, err))
	}
	t.call = func(ctx context.Context, req *source.Request) (*source.Output, error) {
		in, err := decode[In](req.Arguments)
		if err != nil {
			return nil, err
		}
		value, content, err := s.Run(ctx, req, in)
		if err != nil {
			return nil, err
		}
		encoded, err := jsonx.Marshal(value)
		if err != nil {
			return nil, toolroom.Errorf(toolroom.CodeInvalidOutput, "the value cannot be written as JSON: %w", err)
		}
		out := &source.Output{Value: encoded, Content: content}
		if f, ok := any(value).(Finisher); ok {
			f.Finish(out)
		}
		return out, nil
	}
	t.predict = func(req *source.Request) []toolroom.Effect {
		in, err := decode[In](req.Arguments)
		if err != nil || s.Predict == nil {
			return nil
		}
		return s.Predict(req, in)
	}
	if s.Preview != nil {
		t.preview = func(ctx context.Context, req *source.Request) (source.Preview, error) {
			in, err := decode[In](req.Arguments)
			if err != nil {
				return source.Preview{}, err
			}
			return s.Preview(ctx, req, in)
		}
	}
	return t
}

// Text returns a text as the content of a result.
func Text(text string) []toolroom.Content { return []toolroom.Content{toolroom.TextContent(text)} }

var lineEnds = strings.NewReplacer("\n", `\n`, "\r", `\r`)

// FileName returns a file's name for a list that has one file per line. It replaces line ends,
// which would make one name look like two.
func FileName(name string) string { return lineEnds.Replace(name) }

// Arguments returns the arguments of an example. It panics if v cannot be written as JSON.
func Arguments(v map[string]any) json.RawMessage {
	data, err := jsonx.Marshal(v)
	if err != nil {
		panic(err)
	}
	return data
}

// Define returns the definition of a tool with one example.
func Define(id, tag, title, description string, hints toolroom.Hints, example map[string]any) toolroom.Tool {
	return toolroom.Tool{
		ID: toolroom.MustParseID(id), Title: title, Description: description, Hints: hints, Tags: []string{tag},
		Examples: []toolroom.Example{{Arguments: Arguments(example)}},
	}
}

// Hints returns the hints of a tool that reads, or that changes something without
// destroying it, on this machine only.
func Hints(readOnly, destructive, openWorld bool) toolroom.Hints {
	return toolroom.Hints{ReadOnly: &readOnly, Destructive: &destructive, OpenWorld: &openWorld}
}

func decode[In any](arguments json.RawMessage) (In, error) {
	var in In
	err := jsonx.Unmarshal(arguments, &in, jsonx.Limits{Bytes: len(arguments)})
	if err != nil {
		var again In
		if jsonx.Unmarshal(normalizeIntegers(arguments), &again, jsonx.Limits{}) == nil {
			return again, nil
		}
		return in, toolroom.Errorf(toolroom.CodeInvalidArguments, "the arguments cannot be read: %w", err)
	}
	return in, nil
}

// normalizeIntegers rewrites numbers such as 2.0 and 1e3 without fraction and exponent. JSON
// Schema counts them as integers, but Go cannot decode them into an int.
func normalizeIntegers(arguments json.RawMessage) json.RawMessage {
	reader := json.NewDecoder(bytes.NewReader(arguments))
	reader.UseNumber()
	var all any
	if reader.Decode(&all) != nil {
		return arguments
	}
	var walk func(v any) any
	walk = func(v any) any {
		switch v := v.(type) {
		case json.Number:
			if f, err := v.Float64(); err == nil && strings.ContainsAny(v.String(), ".eE") && f == math.Trunc(f) && math.Abs(f) < 1<<53 {
				return json.Number(strconv.FormatInt(int64(f), 10))
			}
		case []any:
			for i, item := range v {
				v[i] = walk(item)
			}
		case map[string]any:
			for name, item := range v {
				v[name] = walk(item)
			}
		}
		return v
	}
	written, err := jsonx.Marshal(walk(all))
	if err != nil {
		return arguments
	}
	return written
}

// Pack is a group of tools that share what they work on.
type Pack struct {
	// Name is the name of the pack in the config.
	Name  string
	Tools []Tool
	// Dir is the folder to which relative paths in arguments refer.
	Dir string
	// Missing describes what the pack lacks on this machine or in this config, and what to do
	// about it. If it is not nil, all tools of the pack return it.
	Missing *toolroom.Error
	// PartlyMissing is like Missing, for packs in which some tools work. The other tools return
	// it themselves.
	PartlyMissing *toolroom.Error
	// Check returns what the pack lacks now, such as a secret. doctor calls it. It may be nil.
	Check func(ctx context.Context) *toolroom.Error
	// Weakness describes a protection that working tools lack on this machine.
	Weakness *toolroom.Error
	// Isolation returns the isolation of a call, if the pack runs programs in a sandbox.
	Isolation func(ctx context.Context, req *source.Request) string
	// Enforces reports whether the pack enforces a rule of policy on the programs that a call
	// starts; see [source.Predictor]. A pack with Isolation must set it.
	Enforces func(rule toolroom.Effect, predicted []toolroom.Effect) bool
	// Close stops everything that the pack has started. It may be nil.
	Close func() error
}

// Source returns the pack as a source of tools.
func (p *Pack) Source() source.Source {
	s := &packSource{pack: p, tools: map[string]Tool{}}
	for _, t := range p.Tools {
		s.tools[t.ID.Unversioned().String()] = t
	}
	if p.Isolation != nil {
		return &isolatedSource{s}
	}
	return s
}

// List returns the definitions of the tools.
func (p *Pack) List() []toolroom.Tool {
	tools := make([]toolroom.Tool, len(p.Tools))
	for i, t := range p.Tools {
		tools[i] = t.Tool
	}
	return tools
}

type packSource struct {
	pack  *Pack
	tools map[string]Tool
	calls deadline.Calls
}

func (s *packSource) Tools(context.Context) ([]toolroom.Tool, error) { return s.pack.List(), nil }

func (s *packSource) tool(req *source.Request) (Tool, bool) {
	t, ok := s.tools[req.Tool.Unversioned().String()]
	return t, ok
}

func (s *packSource) Call(ctx context.Context, req *source.Request) (*source.Output, error) {
	t, ok := s.tool(req)
	if !ok {
		return nil, toolroom.Errorf(toolroom.CodeToolNotFound, "the pack %s has no tool %s", s.pack.Name, req.Tool)
	}
	if s.pack.Missing != nil {
		return &source.Output{Effects: toolroom.EffectsNone, Unsent: true}, s.pack.Missing
	}
	ctx, done, err := s.calls.Begin(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	out, err := t.call(ctx, req)
	switch {
	case !t.Hints.IsReadOnly():
	case err == nil && ctx.Err() != nil: // what was read may be a part
		return nil, context.Cause(ctx)
	case err != nil && ctx.Err() == nil:
		out = &source.Output{Effects: toolroom.EffectsNone}
	}
	return out, err
}

// PredictEffects implements [source.Predictor].
func (s *packSource) PredictEffects(req *source.Request) ([]toolroom.Effect, string) {
	t, ok := s.tool(req)
	if !ok {
		return nil, s.pack.Dir
	}
	predicted := t.predict(req)
	if len(predicted) == 0 {
		// Without any prediction, the names of the arguments would be read as effects.
		predicted = []toolroom.Effect{{Kind: toolroom.EffectNone}}
	}
	return predicted, s.pack.Dir
}

// Preview implements [source.Predictor].
func (s *packSource) Preview(ctx context.Context, req *source.Request) (source.Preview, error) {
	t, ok := s.tool(req)
	if !ok || t.preview == nil || s.pack.Missing != nil {
		return source.Preview{}, nil
	}
	return t.preview(ctx, req)
}

// Close ends the calls, and then closes the pack.
func (s *packSource) Close() error {
	s.calls.Close()
	if s.pack.Close == nil {
		return nil
	}
	return s.pack.Close()
}

var (
	_ source.Predictor = (*packSource)(nil)
	_ source.Sandboxed = (*isolatedSource)(nil)
)

type isolatedSource struct{ *packSource }

// Isolation implements [source.Sandboxed].
func (s *isolatedSource) Isolation(ctx context.Context, req *source.Request) string {
	return s.pack.Isolation(ctx, req)
}

// Resumes returns false.
func (s *isolatedSource) Resumes(context.Context, string) bool { return false }

// Enforces implements [source.Predictor].
func (s *packSource) Enforces(req *source.Request, rule toolroom.Effect, predicted []toolroom.Effect) bool {
	if t, ok := s.tool(req); ok && t.enforces != nil {
		return t.enforces(rule)
	}
	return s.pack.Enforces != nil && s.pack.Enforces(rule, predicted)
}

// Packs is a list of packs.
type Packs []*Pack

// Find returns the pack with a name, or nil.
func (ps Packs) Find(name string) *Pack {
	i := slices.IndexFunc(ps, func(p *Pack) bool { return p.Name == name })
	if i < 0 {
		return nil
	}
	return ps[i]
}
