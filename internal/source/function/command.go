package function

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/bridge"
	"github.com/toolroom/toolroom/internal/engine"
	"github.com/toolroom/toolroom/internal/jsonx"
	"github.com/toolroom/toolroom/internal/schema"
	"github.com/toolroom/toolroom/source"
)

// inspectCommand describes the only tool of a script or WebAssembly module, which declares
// its parameters.
func inspectCommand(c *Code) ([]Inspected, error) {
	m := &c.Manifest
	if len(m.Tools) > 1 {
		return nil, fileError(c.File, 0, 0, "it is one tool, but "+ManifestFile+" lists several", "push each tool by itself")
	}
	where := ManifestFile
	if c.Language == Script {
		where = c.File
		if _, err := interpreter(c.File, c.Files[c.File]); err != nil {
			return nil, err
		}
	} else if _, err := decodeModule(c.File, c.Files[c.File]); err != nil {
		return nil, err
	}
	t := Inspected{Name: cmp.Or(m.Name, toolNameOf(c.File)), Title: m.Title, Text: m.Description, Plan: json.RawMessage("{}"), Line: 1}
	declared := len(m.Tools) == 1 && m.Tools[0].InputSchema != nil
	if _, ok := c.Files[ManifestFile]; !ok && c.Language == "wasm" {
		return nil, fileError(c.File, 0, 0, "it came without "+ManifestFile+", which declares its parameters", `write it beside the module with "file: `+c.File+`" and "parameters: {name: string}", or "parameters: {}" if it takes none, and push the folder`)
	}
	if m.Parameters == nil && !declared {
		return nil, fileError(where, 1, 1, "it declares no parameters", `declare them: "parameters: {name: string}", or "parameters: {}" if it takes none, in a comment "toolroom:" of a script or in `+ManifestFile)
	}
	if declared && m.Parameters != nil {
		return nil, fileError(where, 1, 1, "it declares both parameters and an input_schema", "keep one of them")
	}
	var err error
	if t.Input, err = m.Parameters.schema(where, declared); err != nil {
		return nil, err
	}
	if m.Output, t.Output, err = m.outputForm(where, c.Language); err != nil {
		return nil, err
	}
	return []Inspected{t}, nil
}

// schema returns the input schema. open means that further arguments are accepted.
func (p Parameters) schema(file string, open bool) (json.RawMessage, error) {
	var properties bytes.Buffer
	required := []string{}
	for i, one := range p {
		text, err := json.Marshal(one.Schema)
		if err == nil {
			_, err = schema.Compile(text, schema.Limits{})
		}
		if err != nil {
			return nil, fileError(file, 0, 0, fmt.Sprintf("the parameter %s has no valid schema: %v", one.Name, err), "write a type (string, integer, number, boolean, array, object) or a JSON Schema")
		}
		if value, ok := one.Schema["default"]; ok {
			if err := checkFitsSchema(text, value); err != nil {
				return nil, fileError(file, 0, 0, fmt.Sprintf("the default of %s is %v, which does not fit its type: %v", one.Name, value, err), "correct the default or the type")
			}
		}
		if i > 0 {
			properties.WriteByte(',')
		}
		fmt.Fprintf(&properties, "%s:%s", Encode(one.Name), text)
		if !one.Optional {
			required = append(required, one.Name)
		}
	}
	return json.RawMessage(fmt.Sprintf(`{"type":"object","properties":{%s},"required":%s,"additionalProperties":%t}`, properties.String(), Encode(required), open)), nil
}

// checkFitsSchema returns an error if a value does not fit a schema.
func checkFitsSchema(text json.RawMessage, value any) error {
	s, err := schema.Compile(text, schema.Limits{})
	if err != nil {
		return err
	}
	if value == nil {
		return s.Validate(nil)
	}
	tree, err := jsonx.Decode(Encode(value), jsonx.Limits{})
	if err != nil {
		return err
	}
	return s.Validate(tree)
}

// outputForm returns the form of a program's output (text, json or lines), and the schema of the
// value that it becomes.
func (m *Manifest) outputForm(file, language string) (form string, output json.RawMessage, err error) {
	form = m.Output
	returns := m.Returns
	if name, ok := returns.(string); ok {
		returns = map[string]any{"type": name}
	}
	if form == "" {
		form = "text"
		if language == "wasm" || returns != nil {
			form = "json"
		}
	}
	if !slices.Contains([]string{"text", "json", "lines"}, form) {
		return "", nil, fileError(file, 0, 0, fmt.Sprintf("the output is %q", form), "write output: text, json or lines")
	}
	if returns == nil {
		returns = map[string]any{"text": map[string]any{"type": "string"}, "lines": map[string]any{"type": "array"}}[form]
	}
	output = Encode(returns)
	if output == nil {
		return form, json.RawMessage("null"), nil
	}
	if _, err := schema.Compile(output, schema.Limits{}); err != nil {
		return "", nil, fileError(file, 0, 0, fmt.Sprintf("what it returns has no valid schema: %v", err), "write a type or a JSON Schema")
	}
	return form, output, nil
}

// interpreter returns the command of a script's first line.
func interpreter(file, text string) ([]string, error) {
	line, _, _ := strings.Cut(strings.TrimPrefix(text, "#!"), "\n")
	path, argument, _ := strings.Cut(strings.TrimSpace(line), " ")
	if !strings.HasPrefix(text, "#!") || !strings.HasPrefix(path, "/") {
		return nil, fileError(file, 1, 1, "its first line names no interpreter", "begin it with #! and a path, for example #!/bin/sh or #!/usr/bin/env ruby")
	}
	command := []string{path}
	if argument = strings.TrimSpace(argument); argument != "" {
		command = append(command, argument) // the kernel passes the rest of the line as one argument
	}
	return command, nil
}

// decodeModule decodes the text of a WebAssembly module, which is base64.
func decodeModule(file, text string) ([]byte, error) {
	data, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return nil, fileError(file, 0, 0, "it is not the base64 of a WebAssembly module", "push the file with toolroom's own client, which encodes it, or encode it with base64")
	}
	return data, nil
}

// checkModule returns an error if a module does not compile. It compiles in a worker.
func checkModule(ctx context.Context, engines []engine.Engine, c *Code) error {
	module, err := decodeModule(c.File, c.Files[c.File])
	if err != nil {
		return err
	}
	job := engine.Job{Run: "inspect", Owner: "functions", Program: bridge.Program{Language: "wasm-compile", Name: c.File, Module: module, Limits: bridge.Limits{Wall: 120_000}}}
	result, err := runFirst(ctx, engines, job)
	if err == nil && result.Outcome.Failure != nil {
		err = result.Outcome.Failure
	}
	if err != nil {
		return fileError(c.File, 0, 0, "it is not a WebAssembly module that can run here: "+err.Error(), "build a command of WASI preview 1, for example GOOS=wasip1 GOARCH=wasm go build, or cargo build --target wasm32-wasip1")
	}
	return nil
}

// maxVariableLength is the length of the longest argument that is passed in a variable. Longer
// ones, which the kernel does not accept, are in stdin only.
const maxVariableLength = 100 << 10

// commandProgram returns the program that runs one call of a script or WebAssembly module.
func (t *Tool) commandProgram(ctx context.Context, req *source.Request) (Program, error) {
	c := &t.d.Code
	arguments, err := t.arguments(req)
	if err != nil {
		return Program{}, err
	}
	p := Program{Name: c.File, Language: "command", Stdin: string(Encode(arguments)), Output: t.d.Output}
	if c.Language == "wasm" {
		p.Language = "wasm"
		if p.Module, err = decodeModule(c.File, c.Files[c.File]); err != nil {
			return p, err
		}
	} else {
		if p.Command, err = interpreter(c.File, c.Files[c.File]); err != nil {
			return p, err
		}
		p.Command = append(p.Command, "./"+c.File)
		for _, name := range slices.Sorted(maps.Keys(c.Files)) {
			p.Files = append(p.Files, bridge.Member{Key: name, Value: c.Files[name]})
		}
	}
	p.Env, err = t.environment(ctx, req, arguments)
	return p, err
}

// arguments returns the arguments of a call, with the defaults that the schema declares.
func (t *Tool) arguments(req *source.Request) (map[string]json.RawMessage, error) {
	arguments := map[string]json.RawMessage{}
	if err := json.Unmarshal([]byte(cmp.Or(string(req.Arguments), "{}")), &arguments); err != nil {
		return nil, toolroom.Errorf(toolroom.CodeInvalidArguments, "the arguments of %s: %w", req.Tool, err)
	}
	var schema struct {
		Properties map[string]json.RawMessage
	}
	if err := json.Unmarshal(t.d.Tool.InputSchema, &schema); err != nil {
		return nil, err
	}
	for name, text := range schema.Properties {
		var of struct{ Default json.RawMessage }
		if _, given := arguments[name]; !given && json.Unmarshal(text, &of) == nil && of.Default != nil {
			arguments[name] = of.Default
		}
	}
	return arguments, nil
}

// environment returns the variables of a command: its arguments, its context and the
// secrets that it declares.
func (t *Tool) environment(ctx context.Context, req *source.Request, arguments map[string]json.RawMessage) ([]string, error) {
	var env []string
	for _, name := range slices.Sorted(maps.Keys(arguments)) {
		var text string
		if json.Unmarshal(arguments[name], &text) != nil {
			text = string(arguments[name])
		}
		if len(text) <= maxVariableLength && !strings.ContainsRune(text, 0) {
			env = append(env, "ARG_"+variableName(name)+"="+text)
		}
	}
	config := string(t.d.Config)
	if config == "" || config == "null" {
		config = "{}"
	}
	for key, value := range map[string]string{"TOOL": t.d.Tool.ID.String(), "CALL": req.Call, "ENVIRONMENT": cmp.Or(req.Environment, "prod"), "CALLER": req.Identity.Key(), "CONFIG": config} {
		env = append(env, "TOOLROOM_"+key+"="+value)
	}
	for _, ref := range t.d.Secrets {
		value, err := t.o.Resolve(ctx, ref)
		if err != nil {
			return nil, err
		}
		env = append(env, "SECRET_"+variableName(strings.TrimPrefix(ref, "secret://"))+"="+value)
	}
	slices.Sort(env)
	return env, nil
}

// variableName converts a name for use within the name of an environment variable.
func variableName(name string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z':
			return r - 'a' + 'A'
		case r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '_':
			return r
		}
		return '_'
	}, name)
}
