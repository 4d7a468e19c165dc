package function

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	_ "embed"

	"github.com/BurntSushi/toml"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/bridge"
	"github.com/toolroom/toolroom/internal/engine"
	"github.com/toolroom/toolroom/internal/schema"
	"github.com/toolroom/toolroom/sandbox"
)

// Limits of an upload.
const (
	maxFile  = 1 << 20
	maxFiles = 200
	maxTotal = 8 << 20
	// maxModule limits the text of a WebAssembly module.
	maxModule = 16 << 20
)

// Inspected is a tool that the inspection of code has found.
type Inspected struct {
	Name   string          `json:"name"`
	Entry  string          `json:"entry"`
	Title  string          `json:"title"`
	Text   string          `json:"description"`
	Input  json.RawMessage `json:"input"`
	Output json.RawMessage `json:"output"`
	Plan   json.RawMessage `json:"plan"`
	Line   int             `json:"line"`
	// Positions are the lines and columns of parameters, and of fields by Class.field.
	Positions map[string][2]int `json:"places"`
	// Node means that a tool in JavaScript or TypeScript needs Node. Preload lists the packages
	// that Node loads from their folder.
	Node    bool     `json:"-"`
	Preload []string `json:"-"`
}

// CheckSchemas returns an error if one of the tool's schemas is invalid, or if the default of a
// parameter or a field does not fit its type.
func (t *Inspected) CheckSchemas(file string) error {
	for what, text := range map[string]json.RawMessage{"input": t.Input, "output": t.Output} {
		if text == nil {
			continue
		}
		if _, err := schema.Compile(text, schema.Limits{}); err != nil {
			return fileError(file, t.Line, 1, fmt.Sprintf("the %s schema of %s cannot be used: %v", what, t.Entry, err), "write the types out, or correct the schema in "+ManifestFile)
		}
	}
	return t.checkDefaults(file)
}

// checkDefaults returns an error for the first default in the input schema that does not fit
// its type.
func (t *Inspected) checkDefaults(file string) error {
	var root map[string]any
	if err := json.Unmarshal(t.Input, &root); err != nil {
		return fileError(file, t.Line, 1, fmt.Sprintf("the input schema of %s is no object: %v", t.Entry, err), "correct the schema in "+ManifestFile)
	}
	// Check all as properties of one object, so that only one schema must be compiled.
	var names []string
	types, values := map[string]any{}, map[string]any{}
	eachDefault(root, "", func(name string, one map[string]any) {
		value := one["default"]
		if value == nil && strings.Contains(name, ".") {
			return // x: int = None in a class means that x is optional
		}
		key := strconv.Itoa(len(names))
		names, types[key], values[key] = append(names, name), one, value
	})
	if len(names) == 0 {
		return nil
	}
	all := map[string]any{"properties": types}
	if defs := root["$defs"]; defs != nil {
		all["$defs"] = defs
	}
	err := checkFitsSchema(Encode(all), values)
	if err == nil {
		return nil
	}
	name, reason, line, column := t.Entry, err.Error(), t.Line, 1
	if failure, ok := errors.AsType[*schema.Failure](err); ok && len(failure.Problems) > 0 {
		first := failure.Problems[0]
		key, rest, _ := strings.Cut(strings.TrimPrefix(first.Pointer, "/"), "/")
		if i, bad := strconv.Atoi(key); bad == nil && i < len(names) {
			name, reason = names[i], strings.TrimPrefix(first.Message, "/"+key)
			if rest == "" {
				reason = strings.TrimPrefix(reason, ": ")
			}
		}
	}
	if at, ok := t.Positions[name]; ok {
		line, column = at[0], at[1]
	}
	return fileError(file, line, column, fmt.Sprintf("the default of %s does not fit its type: %s", name, reason), "correct the default or the type")
}

// eachDefault calls do for each schema within node that has a default, with the name of its
// parameter or, as Class.field, of its field.
func eachDefault(node any, name string, do func(string, map[string]any)) {
	one, ok := node.(map[string]any)
	if !ok {
		return // true and false
	}
	if _, ok := one["default"]; ok {
		do(name, one)
	}
	for _, keyword := range []string{"properties", "patternProperties", "$defs", "dependentSchemas"} {
		many, _ := one[keyword].(map[string]any)
		for _, key := range slices.Sorted(maps.Keys(many)) {
			inner := key
			if name != "" {
				inner = name + "." + key
			}
			eachDefault(many[key], inner, do)
		}
	}
	for _, keyword := range []string{"items", "additionalProperties", "contains", "propertyNames", "not", "if", "then", "else"} {
		eachDefault(one[keyword], name, do)
	}
	for _, keyword := range []string{"anyOf", "oneOf", "allOf", "prefixItems"} {
		many, _ := one[keyword].([]any)
		for _, inner := range many {
			eachDefault(inner, name, do)
		}
	}
}

// Code is checked code with its manifest.
type Code struct {
	// Lock is the author's lock of the packages, if there is one.
	Lock     string
	Files    map[string]string
	File     string
	Language string
	Manifest Manifest
}

// Read checks the files of an upload and reads what they declare.
func Read(files map[string]string, file string) (*Code, error) {
	if len(files) == 0 || len(files) > maxFiles {
		return nil, toolroom.Errorf(toolroom.CodeInvalidArguments, "an upload has 1 to %d files, not %d", maxFiles, len(files)).
			WithCLIHint("push a file of code, or a folder that has one: toolroom tool push FILE; a starter: toolroom tool new NAME -l python")
	}
	total := 0
	for name, text := range files {
		total += len(text)
		switch {
		case !path.IsAbs("/"+name) || path.Clean(name) != name || strings.HasPrefix(name, "../") || path.IsAbs(name):
			return nil, toolroom.Errorf(toolroom.CodeInvalidArguments, "%q is not a relative file name", name)
		case path.Ext(name) == ".wasm":
			if len(text) > maxModule {
				return nil, fileError(name, 0, 0, fmt.Sprintf("it is too large: a module has at most %d MiB", maxModule>>20), "link it without debug information, for example go build -ldflags=-s")
			}
			total -= len(text)
		case len(text) > maxFile:
			return nil, fileError(name, 0, 0, "it is too large: a file has at most 1 MiB", "split it, or keep data outside of the code")
		case !utf8.ValidString(text) || strings.ContainsRune(text, 0):
			line, column := invalidPosition(text)
			return nil, fileError(name, line, column, "it is not a text in UTF-8", "push source code only")
		}
	}
	if total > maxTotal {
		return nil, toolroom.Errorf(toolroom.CodeInvalidArguments, "the files have %d bytes; at most %d are accepted", total, maxTotal)
	}
	c := &Code{Files: maps.Clone(files)}
	files = c.Files
	for name, text := range files { // some editors write a byte order mark, which interpreters reject
		files[name] = strings.TrimPrefix(text, "\ufeff")
	}
	var err error
	if text, ok := files[ManifestFile]; ok {
		if c.Manifest, err = readYAML(text); err != nil {
			return nil, err
		}
	}
	if file == "" {
		if file, err = mainFile(files, c.Manifest.File); err != nil {
			return nil, err
		}
	}
	c.File = file
	source, ok := files[file]
	if !ok {
		return nil, toolroom.Errorf(toolroom.CodeInvalidArguments, "the upload has no file %s", file)
	}
	if c.Language = languageOf(file, source); c.Language == "" {
		return nil, fileError(file, 0, 0, "its language is not known", "name it .py, .js, .mjs, .ts or .wasm, or begin it with #! and the path of its interpreter")
	}
	if strings.TrimSpace(source) == "" {
		return nil, fileError(file, 1, 1, "it is empty", "define a function with type hints and a docstring")
	}
	if c.Language == "wasm" {
		return c, nil
	}
	read := readCommentHeader
	if c.Language == "python" {
		read = readPythonHeader
	}
	declared, err := read(file, source)
	if err != nil {
		return nil, err
	}
	c.Manifest = c.Manifest.merge(declared)
	if isJavaScript(c.Language) {
		return c, c.readPackages()
	}
	if c.Language == "python" {
		c.Manifest.Dependencies = append(c.Manifest.Dependencies, requirements(files["requirements.txt"])...)
		more, err := projectDependencies(files["pyproject.toml"])
		if err != nil {
			return nil, err
		}
		c.Manifest.Dependencies = append(c.Manifest.Dependencies, more...)
	}
	return c, nil
}

// requirements returns the requirements in requirements.txt.
func requirements(text string) []string {
	var out []string
	for line := range strings.Lines(text) {
		line, _, _ = strings.Cut(line, " #")
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") && !strings.HasPrefix(line, "-") {
			out = append(out, line)
		}
	}
	return out
}

// projectDependencies returns the dependencies in pyproject.toml. It leaves out those of optional
// groups and of the build, because the project itself is not built.
func projectDependencies(text string) ([]string, error) {
	var project struct {
		Project struct {
			Dependencies []string `toml:"dependencies"`
			Dynamic      []string `toml:"dynamic"`
		} `toml:"project"`
	}
	if _, err := toml.Decode(text, &project); err != nil {
		return nil, toolroom.Errorf(toolroom.CodeInvalidArguments, "pyproject.toml: %w", err)
	}
	if slices.Contains(project.Project.Dynamic, "dependencies") {
		return nil, toolroom.Errorf(toolroom.CodeUnsupported, "pyproject.toml: its dependencies are dynamic, and finding them would run its build").
			WithHint("list them under project.dependencies")
	}
	return project.Project.Dependencies, nil
}

func invalidPosition(text string) (line, column int) {
	line = 1
	for i := 0; i < len(text); {
		r, n := utf8.DecodeRuneInString(text[i:])
		if r == utf8.RuneError && n == 1 || r == 0 {
			return line, column + 1
		}
		column++
		if r == '\n' {
			line, column = line+1, 0
		}
		i += n
	}
	return line, column
}

//go:embed inspect.py
var inspector string

// inspectLimits are the limits of an inspection, which runs the top level of the code.
var inspectLimits = bridge.Limits{Wall: 30_000, CPU: 20_000, Memory: 1 << 30, Calls: 1}

// Inspect finds the tools in code. It runs the top level of Python code in a sandbox of the first
// available engine, never in this process; isolated configures the sandbox of a guest. It also
// returns the modules that the code imports from packages.
func Inspect(ctx context.Context, engines []engine.Engine, isolated sandbox.Spec, c *Code, layer engine.Layer) (tools []Inspected, imports []string, err error) {
	var wanted []bridge.Value
	for _, t := range c.Manifest.Tools {
		if t.Entry != "" {
			wanted = append(wanted, t.Entry)
		}
	}
	switch c.Language {
	case Script:
		tools, err = inspectCommand(c)
		return tools, nil, err
	case "wasm":
		if tools, err = inspectCommand(c); err == nil {
			err = checkModule(ctx, engines, c)
		}
		return tools, nil, err
	case "javascript", "typescript":
		tools, err = inspectScript(ctx, engines, isolated, c, wanted, layer.Path)
		return tools, nil, err
	}
	siblings := bridge.Map{}
	for name, text := range c.Files {
		if name != c.File {
			siblings = append(siblings, bridge.Member{Key: name, Value: text})
		}
	}
	source := c.Files[c.File]
	job := engine.Job{
		Run: "inspect", Owner: "functions", Layer: layer, Sandbox: isolated,
		Program: bridge.Program{
			Language: "python", Name: "inspect.py", Source: inspector, Limits: inspectLimits,
			Inputs: bridge.Map{
				{Key: "source", Value: source},
				{Key: "name", Value: c.File},
				{Key: "stem", Value: toolNameOf(c.File)},
				{Key: "wanted", Value: wanted},
				{Key: "__name__", Value: "__inspect__"},
				{Key: "__toolroom__", Value: bridge.Map{{Key: "files", Value: siblings}}},
			},
		},
	}
	result, err := runFirst(ctx, engines, job)
	if err != nil {
		return nil, nil, explainInspection(c.File, err)
	}
	if f := result.Outcome.Failure; f != nil {
		return nil, nil, fileError(c.File, 0, 0, "it cannot be inspected: "+f.Error(), "import it in Python to see why")
	}
	return readInspection(c.File, result.Outcome.Value)
}

func readInspection(file string, v bridge.Value) (tools []Inspected, imports []string, err error) {
	text, err := bridge.ToJSON(v)
	if err != nil {
		return nil, nil, err
	}
	var found struct {
		Tools   []Inspected
		Imports []string
		Problem *struct {
			Message, Hint string
			Line, Column  int
		}
	}
	if err := json.Unmarshal(text, &found); err != nil {
		return nil, nil, toolroom.Errorf(toolroom.CodeInternal, "the inspection of %s returned no description: %w", file, err)
	}
	if p := found.Problem; p != nil {
		return nil, nil, fileError(file, p.Line, p.Column, p.Message, p.Hint)
	}
	if len(found.Tools) == 0 {
		return nil, nil, fileError(file, 1, 1, "it has no tool", "define a function with type hints")
	}
	return found.Tools, found.Imports, nil
}

func explainInspection(file string, err error) error {
	switch toolroom.CodeOf(err) {
	case toolroom.CodeTimeout:
		return fileError(file, 0, 0, "its top level does not end within 30 s", "move what it does into the function")
	case toolroom.CodeResourceLimit:
		return fileError(file, 0, 0, "its top level uses too much: "+err.Error(), "move what it does into the function")
	case toolroom.CodeExecutionFailed:
		return fileError(file, 0, 0, "its top level ended the inspection: "+err.Error(), "move what it does into the function")
	}
	return err
}

// runFirst runs a job on the first available of the engines.
func runFirst(ctx context.Context, engines []engine.Engine, job engine.Job) (*engine.Result, error) {
	var reasons []string
	for _, e := range engines {
		p := e.Probe(ctx)
		if p.State != "available" {
			reasons = append(reasons, e.Name()+": "+p.Reason)
			continue
		}
		return e.Run(ctx, job, noCalls)
	}
	return nil, toolroom.Errorf(toolroom.CodeSandboxUnavailable, "no sandbox here can inspect code: %s", strings.Join(reasons, "; ")).
		WithCLIHint("toolroom doctor shows what is missing and how to get it")
}

// noCalls is the call handler of an inspection.
var noCalls = bridge.NoTools{Err: toolroom.Errorf(toolroom.CodeDenied, "tools cannot be called while the code is inspected").
	WithHint("call them inside the function, not at the top level of the file")}
