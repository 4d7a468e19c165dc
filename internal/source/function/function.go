// Package function implements tools that are functions or programs of their authors. It
// reads their schemas from the code ([Read], [Inspect]) and serves each version of a tool as
// a separate source ([New]). Every call runs in a new process or instance.
//
// The packages that a function needs are resolved, and unpacked into folders that are
// named by their content. No code of a package runs then. For Python, uv resolves without
// building, and [LayerStore.Unpack] only unzips wheels whose hashes are in the lock. For
// JavaScript, npm resolves and installs without scripts ([NPM]).
package function

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/bridge"
	"github.com/toolroom/toolroom/internal/engine/js"
	"github.com/toolroom/toolroom/internal/schema"
	"github.com/toolroom/toolroom/source"
)

// Definition is one version of a function.
type Definition struct {
	Tool  toolroom.Tool
	Code  Code
	Entry string
	// Plan describes how to call the function; the inspection made it.
	Plan    json.RawMessage
	Async   bool
	Context bool // the function takes a context
	// Secrets are references to the secrets in the function's context.
	Secrets []string
	Config  json.RawMessage
	// Output is the form of a command's output: text, json or lines.
	Output string
	// Packages are the packages of a function in JavaScript or TypeScript.
	Packages js.Packages
}

// Program is the program that runs one call.
type Program struct {
	Name   string
	Source string
	// AuthorLines is the number of lines of Source that the author wrote. The lines after them
	// call the function.
	AuthorLines int
	Inputs      bridge.Map
	// MapPosition maps a position in Source to one in the author's files. It is nil if they are
	// the same.
	MapPosition func(line, column int) (file string, fromLine, fromColumn int, ok bool)

	// Bundled is as in bridge.Program, and Preload as in engine.Layer.
	Bundled bool
	Preload []string

	// Language is python, javascript, command or wasm. The fields below are for the last two, as
	// in bridge.Program. Output is the form of their output.
	Language string
	Command  []string
	Env      []string
	Stdin    string
	Files    bridge.Map
	Module   []byte
	Output   string
}

// Options are the services of the room that a Tool uses.
type Options struct {
	// Run runs a program as part of a call. Isolation returns the isolation that Run would use.
	Run       func(ctx context.Context, req *source.Request, p Program) (*source.Output, error)
	Isolation func(ctx context.Context, req *source.Request) string
	// Ready returns when the packages of the function have been installed.
	Ready func(ctx context.Context) error
	// Resolve returns the value of a secret.
	Resolve func(ctx context.Context, reference string) (string, error)
}

// Tool is the source of one version of a function. It is safe for concurrent use.
type Tool struct {
	d            Definition
	o            Options
	authorLines  int // as in Program
	pythonSource string

	input   func() (*schema.Schema, error) // of the arguments; nil without one
	bundled func() (bundledProgram, error) // for JavaScript and TypeScript
}

// New returns the source of a definition.
func New(d Definition, o Options) *Tool {
	t := &Tool{d: d, o: o, input: sync.OnceValues(func() (*schema.Schema, error) {
		if len(d.Tool.InputSchema) == 0 {
			return nil, nil
		}
		return schema.Compile(d.Tool.InputSchema, schema.Limits{})
	})}
	if d.Code.Language == Script || d.Code.Language == "wasm" {
		return t
	}
	if isJavaScript(d.Code.Language) {
		t.bundled = sync.OnceValues(t.bundle)
		return t
	}
	source := d.Code.Files[d.Code.File]
	if !strings.HasSuffix(source, "\n") {
		source += "\n"
	}
	call := fmt.Sprintf("__toolroom_call__(%s, __toolroom__)", d.Entry)
	if d.Async {
		call = "await " + call
	}
	t.authorLines, t.pythonSource = strings.Count(source, "\n"), source+call+"\n"
	return t
}

// Tools returns the tool.
func (t *Tool) Tools(context.Context) ([]toolroom.Tool, error) { return []toolroom.Tool{t.d.Tool}, nil }

// Call runs the function in a new process or instance.
func (t *Tool) Call(ctx context.Context, req *source.Request) (*source.Output, error) {
	var p Program
	err := t.o.Ready(ctx)
	if err == nil {
		p, err = t.program(ctx, req)
	}
	if err != nil {
		return &source.Output{Unsent: true, Effects: toolroom.EffectsNone}, err
	}
	return t.o.Run(ctx, req, p)
}

// program returns the program that runs one call.
func (t *Tool) program(ctx context.Context, req *source.Request) (Program, error) {
	arguments, err := t.writeIntegers(req.Arguments)
	if err != nil {
		return Program{}, err
	}
	withIntegers := *req
	withIntegers.Arguments = arguments
	req = &withIntegers
	if t.bundled != nil {
		given, err := t.inputs(ctx, req)
		if err != nil {
			return Program{}, err
		}
		b, err := t.bundled()
		return Program{Language: "javascript", Name: t.d.Code.File, Source: b.source, Inputs: given, MapPosition: b.mapPosition, Bundled: t.d.Packages != js.Packages{}, Preload: b.preload}, err
	}
	if t.pythonSource == "" {
		return t.commandProgram(ctx, req)
	}
	given, err := t.inputs(ctx, req)
	return Program{Language: t.d.Code.Language, Name: t.d.Code.File, Source: t.pythonSource, AuthorLines: t.authorLines, Inputs: given}, err
}

var _ source.Sandboxed = (*Tool)(nil)

// Isolation implements [source.Sandboxed].
func (t *Tool) Isolation(ctx context.Context, req *source.Request) string {
	return t.o.Isolation(ctx, req)
}

// Resumes returns false, because an interrupted function can only start again.
func (t *Tool) Resumes(context.Context, string) bool { return false }

// Close does nothing: the engines that run the calls are closed with their room.
func (t *Tool) Close() error { return nil }

// writeIntegers returns arguments in which a parameter that takes integers gets 2 for 2.0.
func (t *Tool) writeIntegers(arguments json.RawMessage) (json.RawMessage, error) {
	if !mayHaveFraction(arguments) {
		return arguments, nil // without compiling the schema
	}
	input, err := t.input()
	if err != nil || input == nil {
		return arguments, err
	}
	return input.WriteIntegers(arguments)
}

// mayHaveFraction reports whether a JSON document may contain a number with a fraction or an
// exponent.
func mayHaveFraction(document []byte) bool {
	for i := 1; i < len(document); i++ {
		switch document[i] {
		case '.', 'e', 'E':
			if c := document[i-1]; '0' <= c && c <= '9' {
				return true
			}
		}
	}
	return false
}

// inputs returns the inputs of the program.
func (t *Tool) inputs(ctx context.Context, req *source.Request) (bridge.Map, error) {
	arguments, err := bridge.FromJSON(req.Arguments)
	if err != nil {
		return nil, toolroom.Errorf(toolroom.CodeInvalidArguments, "the arguments of %s: %w", req.Tool, err)
	}
	plan, err := fromJSON(t.d.Plan)
	if err != nil {
		return nil, err
	}
	given := bridge.Map{{Key: "arguments", Value: arguments}, {Key: "plan", Value: plan}}
	if t.bundled == nil && len(t.d.Code.Files) > 1 {
		files := bridge.Map{}
		for _, name := range slices.Sorted(maps.Keys(t.d.Code.Files)) {
			if name != t.d.Code.File {
				files = append(files, bridge.Member{Key: name, Value: t.d.Code.Files[name]})
			}
		}
		given = append(given, bridge.Member{Key: "files", Value: files})
	}
	if t.d.Context {
		more, err := t.context(ctx, req)
		if err != nil {
			return nil, err
		}
		given = append(given, more...)
	}
	return bridge.Map{{Key: "__name__", Value: "__tool__"}, {Key: "__toolroom__", Value: given}}, nil
}

// context returns the members of the function's context.
func (t *Tool) context(ctx context.Context, req *source.Request) (bridge.Map, error) {
	config, err := fromJSON(t.d.Config)
	if err != nil {
		return nil, err
	}
	environment := cmp.Or(req.Environment, "prod")
	secrets := bridge.Map{}
	for _, ref := range t.d.Secrets {
		value, err := t.o.Resolve(ctx, ref)
		if err != nil {
			return nil, err
		}
		secrets = append(secrets, bridge.Member{Key: strings.TrimPrefix(ref, "secret://"), Value: value})
	}
	return bridge.Map{
		{Key: "call", Value: req.Call},
		{Key: "environment", Value: environment},
		{Key: "caller", Value: req.Identity.Key()},
		{Key: "config", Value: config},
		{Key: "secrets", Value: secrets},
	}, nil
}

func fromJSON(text json.RawMessage) (bridge.Value, error) {
	if len(text) == 0 {
		return bridge.Map{}, nil
	}
	return bridge.FromJSON(text)
}
