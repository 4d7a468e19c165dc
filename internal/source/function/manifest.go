package function

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"path"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/BurntSushi/toml"
	"go.yaml.in/yaml/v4"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/nearest"
	"github.com/toolroom/toolroom/internal/pattern"
	"github.com/toolroom/toolroom/internal/yamldate"
)

// ManifestFile is the name of a folder's manifest.
const ManifestFile = "tool.yaml"

// Manifest holds the author's declarations: in tool.yaml, in the table tool.toolroom of a Python
// file's header (PEP 723), or in the comment "toolroom:" of a file in another language.
type Manifest struct {
	Namespace string `yaml:"namespace" toml:"namespace"`
	// Name, Title, Description, Parameters, Returns and Output describe the only tool of a
	// script or WebAssembly module. Parameters maps names to schemas, or to names of types.
	Name        string     `yaml:"name" toml:"name"`
	Title       string     `yaml:"title" toml:"title"`
	Description string     `yaml:"description" toml:"description"`
	Parameters  Parameters `yaml:"parameters" toml:"-"`
	Returns     any        `yaml:"returns" toml:"-"`
	// Output is the form of the program's output: text, json or lines.
	Output string `yaml:"output" toml:"-"`
	// File is the file with the functions; by default the only one, or the one named like
	// the folder or main.
	File string `yaml:"file" toml:"file"`
	// Dependencies are requirements of packages.
	Dependencies []string `yaml:"dependencies" toml:"dependencies"`
	Engine       string   `yaml:"engine" toml:"engine"`
	// Profile is the sandbox profile: standard, which is the default, or hardened.
	Profile string   `yaml:"profile" toml:"profile"`
	Egress  []string `yaml:"egress" toml:"egress"`
	// Secrets are names or references: github/token, secret://github/token.
	Secrets  []string       `yaml:"secrets" toml:"secrets"`
	Tags     []string       `yaml:"tags" toml:"tags"`
	ReadOnly bool           `yaml:"read_only" toml:"read_only"`
	Config   map[string]any `yaml:"config" toml:"config"`
	Limits   Limits         `yaml:"limits" toml:"limits"`
	// Tools describes the tools; empty takes them from the code.
	Tools []ManifestTool `yaml:"tools" toml:"tools"`
	Cases []ManifestCase `yaml:"cases" toml:"cases"`
}

// Limits bound one call; zero fields have the defaults of programs.
type Limits struct {
	TimeoutMS   int64 `yaml:"timeout_ms" toml:"timeout_ms" json:"timeout_ms,omitempty"`
	CPUMS       int64 `yaml:"cpu_ms" toml:"cpu_ms" json:"cpu_ms,omitempty"`
	MemoryBytes int64 `yaml:"memory_bytes" toml:"memory_bytes" json:"memory_bytes,omitempty"`
	Calls       int   `yaml:"max_calls" toml:"max_calls" json:"max_calls,omitempty"`
}

// ManifestTool describes one tool. Empty fields are taken from the code.
type ManifestTool struct {
	Entry        string         `yaml:"entry" toml:"entry"`
	Name         string         `yaml:"name" toml:"name"`
	Title        string         `yaml:"title" toml:"title"`
	Description  string         `yaml:"description" toml:"description"`
	InputSchema  map[string]any `yaml:"input_schema" toml:"input_schema"`
	OutputSchema map[string]any `yaml:"output_schema" toml:"output_schema"`
}

// ManifestCase is a saved case of one of the tools.
type ManifestCase struct {
	Tool      string         `yaml:"tool" toml:"tool"`
	Name      string         `yaml:"name" toml:"name"`
	Arguments map[string]any `yaml:"arguments" toml:"arguments"`
	Expect    any            `yaml:"expect" toml:"expect"`
	Schema    map[string]any `yaml:"schema" toml:"schema"`
	Assert    string         `yaml:"assert" toml:"assert"`
	Error     string         `yaml:"error" toml:"error"`
}

// readYAML reads tool.yaml.
func readYAML(text string) (Manifest, error) {
	var m Manifest
	if err := decodeYAML(text, &m); err != nil && strings.TrimSpace(text) != "" {
		return m, toolroom.Errorf(toolroom.CodeInvalidArguments, "%s: %s", ManifestFile, yamlNoise.Replace(strings.Join(strings.Fields(err.Error()), " "))).
			WithHint("see docs/tools.md for the fields of %s", ManifestFile)
	}
	return m, nil
}

// decodeYAML decodes the first document of a text. Keys must be those of m.
func decodeYAML(text string, m *Manifest) error {
	var tree yaml.Node
	if err := yaml.NewDecoder(strings.NewReader(text)).Decode(&tree); err != nil {
		return err
	}
	yamldate.Keep(&tree)
	return tree.Load(m, yaml.WithKnownFields())
}

// pythonHeader matches a block of PEP 723.
var pythonHeader = pattern.Lazy(`(?m)^# /// script[ \t]*$\n((?:#(?:| .*)$\n?)+)`)

// nearPythonHeader matches a line that looks like the beginning of a header but is not one.
var nearPythonHeader = pattern.Lazy(`(?m)^#[ \t]*(?:///[ \t]*[Ss]cript|toolroom:)[ \t]*$`)

// readPythonHeader reads the metadata of a Python file: what its header declares, if it has one.
func readPythonHeader(file, source string) (Manifest, error) {
	source = strings.ReplaceAll(source, "\r\n", "\n")
	at := pythonHeader().FindStringSubmatchIndex(source)
	if at == nil {
		if near := nearPythonHeader().FindStringIndex(source); near != nil {
			return Manifest{}, fileError(file, 1+strings.Count(source[:near[0]], "\n"), 1, "the header cannot be read: "+strings.TrimSpace(source[near[0]:near[1]]),
				`begin it with a line "# /// script" and end it with "# ///"; what is between is TOML, with the table [tool.toolroom]`)
		}
		return Manifest{}, nil
	}
	var text bytes.Buffer
	closed := false
	for line := range strings.Lines(source[at[2]:at[3]]) {
		line = strings.TrimRight(line, "\r\n")
		if line == "# ///" {
			closed = true
			break
		}
		text.WriteString(strings.TrimPrefix(strings.TrimPrefix(line, "#"), " ") + "\n")
	}
	first := strings.Count(source[:at[2]], "\n")
	if !closed {
		return Manifest{}, fileError(file, first, 1, "the header that begins here has no end", `end it with a line "# ///"`)
	}
	var meta struct {
		Dependencies []string `toml:"dependencies"`
		Requires     string   `toml:"requires-python"`
		Tool         struct {
			Toolroom Manifest `toml:"toolroom"`
		} `toml:"tool"`
	}
	decoded, err := toml.Decode(text.String(), &meta)
	if err != nil {
		line, message := first+1, err.Error()
		if parse, ok := err.(toml.ParseError); ok { //nolint:errorlint // Decode returns it bare
			line, message = first+parse.Position.Line, parse.Message
		}
		if at := wrongType().FindStringSubmatch(message); at != nil {
			n, _ := strconv.Atoi(at[1])
			return Manifest{}, fileError(file, first+n, 1, fmt.Sprintf("%s in the header is of type %s, and must be of type %s", at[2], at[3], strings.Replace(at[4], "slice", "list", 1)),
				"see docs/tools.md for the keys")
		}
		return Manifest{}, fileError(file, line, 1, "the header is not TOML: "+message, "see PEP 723 for its form")
	}
	if err := checkUnknownKeys(file, first, text.String(), decoded); err != nil {
		return Manifest{}, err
	}
	m := meta.Tool.Toolroom
	keepTOMLDates(m.Config)
	for i := range m.Tools {
		keepTOMLDates(m.Tools[i].InputSchema)
		keepTOMLDates(m.Tools[i].OutputSchema)
	}
	for i := range m.Cases {
		c := &m.Cases[i]
		keepTOMLDates(c.Arguments)
		keepTOMLDates(c.Schema)
		c.Expect = keepTOMLDates(c.Expect)
	}
	m.Dependencies = append(m.Dependencies, meta.Dependencies...)
	return m, nil
}

// keepTOMLDates makes the dates and times in a decoded value texts, as those of tool.yaml are, and
// returns the value. The decoder makes a time.Time of each; the name of its location says how it
// was written.
func keepTOMLDates(value any) any {
	switch v := value.(type) {
	case map[string]any:
		for name, member := range v {
			v[name] = keepTOMLDates(member)
		}
	case []any:
		for i, one := range v {
			v[i] = keepTOMLDates(one)
		}
	case []map[string]any:
		for _, one := range v {
			keepTOMLDates(one)
		}
	case time.Time:
		layout := time.RFC3339Nano
		switch v.Location().String() {
		case "date-local":
			layout = time.DateOnly
		case "time-local":
			layout = "15:04:05.999999999"
		case "datetime-local":
			layout = "2006-01-02T15:04:05.999999999"
		}
		return v.Format(layout)
	}
	return value
}

// wrongType matches the decoder's error for a value of the wrong type.
var wrongType = pattern.Lazy(`^toml: line (\d+) \(last key "([^"]+)"\): incompatible types: TOML value has type (.+); destination has type (.+)$`)

// checkUnknownKeys returns an error for the first unknown key of a header. A limit, secret or
// package that is misspelt, or in the wrong table, must not be ignored silently.
func checkUnknownKeys(file string, first int, text string, decoded toml.MetaData) error {
	for _, key := range decoded.Undecoded() {
		if len(key) == 1 && key[0] != "tool" {
			line := first + 1
			for i, l := range strings.Split(text, "\n") {
				if strings.HasPrefix(l, key[0]) {
					line += i
					break
				}
			}
			hint := "the keys are dependencies, requires-python and [tool.toolroom]"
			if slices.Contains(manifestKeys(), key[0]) && key[0] != "dependencies" {
				hint = "write it below a line [tool.toolroom]"
			} else if meant, ok := nearest.Of(key[0], []string{"dependencies", "requires-python"}); ok {
				hint = "did you mean " + meant + "?"
			}
			return fileError(file, line, 1, "the header has an unknown key: "+key[0], hint)
		}
		if len(key) < 3 || key[0] != "tool" || key[1] != "toolroom" {
			continue
		}
		// Deeper keys are the author's own, such as the arguments of a case.
		if len(key) > 4 || len(key) == 4 && key[2] == "config" {
			continue
		}
		name := key[len(key)-1]
		line := first + 1
		for i, l := range strings.Split(text, "\n") {
			if strings.Contains(l, name) {
				line = first + 1 + i
				break
			}
		}
		hint := "see docs/tools.md for the keys"
		if meant, ok := nearest.Of(name, manifestKeys()); ok {
			hint = "did you mean " + meant + "?"
		}
		return fileError(file, line, 1, "the header has an unknown key: "+strings.Join(key[2:], "."), hint)
	}
	return nil
}

// manifestKeys returns the known keys of a header, including those of limits.
func manifestKeys() []string {
	var keys []string
	for _, t := range []reflect.Type{reflect.TypeFor[Manifest](), reflect.TypeFor[Limits]()} {
		for field := range t.Fields() {
			if key := field.Tag.Get("toml"); key != "-" {
				keys = append(keys, key)
			}
		}
	}
	return keys
}

// merge returns m with empty fields taken from other. Lists are joined.
func (m Manifest) merge(other Manifest) Manifest {
	text := func(a *string, b string) {
		if *a == "" {
			*a = b
		}
	}
	text(&m.Namespace, other.Namespace)
	text(&m.Name, other.Name)
	text(&m.Title, other.Title)
	text(&m.Description, other.Description)
	text(&m.Output, other.Output)
	if m.Returns == nil {
		m.Returns = other.Returns
	}
	if m.Parameters == nil {
		m.Parameters = other.Parameters
	}
	text(&m.File, other.File)
	text(&m.Engine, other.Engine)
	text(&m.Profile, other.Profile)
	for _, list := range []struct {
		to   *[]string
		from []string
	}{{&m.Dependencies, other.Dependencies}, {&m.Egress, other.Egress}, {&m.Secrets, other.Secrets}, {&m.Tags, other.Tags}} {
		for _, word := range list.from {
			if !slices.Contains(*list.to, word) {
				*list.to = append(*list.to, word)
			}
		}
	}
	m.ReadOnly = m.ReadOnly || other.ReadOnly
	if m.Config == nil {
		m.Config = other.Config
	}
	if m.Limits == (Limits{}) {
		m.Limits = other.Limits
	}
	if len(m.Tools) == 0 {
		m.Tools = other.Tools
	}
	m.Cases = append(m.Cases, other.Cases...)
	return m
}

// Apply changes an inspected tool to what the manifest declares. It returns an error if a
// declared schema does not match the function's parameters.
func (m *Manifest) Apply(t *Inspected) error {
	found := *t
	for _, d := range m.Tools {
		if d.Entry != t.Entry && (d.Entry != "" || len(m.Tools) > 1) {
			continue
		}
		t.Name, t.Title, t.Text = cmp.Or(d.Name, t.Name), cmp.Or(d.Title, t.Title), cmp.Or(d.Description, t.Text)
		if d.InputSchema != nil {
			declared := Encode(d.InputSchema)
			if err := compareSchemas(&found, declared); err != nil {
				return err
			}
			t.Input = declared
		}
		if d.OutputSchema != nil {
			t.Output = Encode(d.OutputSchema)
		}
	}
	return nil
}

// compareSchemas returns an error if a declared schema contradicts the code.
func compareSchemas(t *Inspected, declared json.RawMessage) error {
	var code, hand struct {
		Properties map[string]any
		Required   []string
		More       any `json:"additionalProperties"`
	}
	if err := json.Unmarshal(t.Input, &code); err != nil {
		return err
	}
	if err := json.Unmarshal(declared, &hand); err != nil {
		return toolroom.Errorf(toolroom.CodeInvalidArguments, "%s: the input_schema of %s is not a JSON Schema: %w", ManifestFile, t.Entry, err)
	}
	for name := range hand.Properties {
		if _, ok := code.Properties[name]; !ok && code.More == false {
			return toolroom.Errorf(toolroom.CodeInvalidArguments, "%s: the input_schema has %s, which the function %s in line %d does not take", ManifestFile, name, t.Entry, t.Line).
				WithHint("remove it from the schema, or add the parameter")
		}
	}
	for _, name := range code.Required {
		if !slices.Contains(hand.Required, name) {
			return toolroom.Errorf(toolroom.CodeInvalidArguments, "%s: the function %s in line %d needs %s, which the input_schema does not require", ManifestFile, t.Entry, t.Line, name).
				WithHint("add it to required, or give the parameter a default")
		}
	}
	return nil
}

// fileError returns an error about an author's file. A line of zero means the whole file.
func fileError(file string, line, column int, message, hint string) error {
	at := file
	if line > 0 {
		at += fmt.Sprintf(":%d:%d", line, max(column, 1))
	}
	e := toolroom.Errorf(toolroom.CodeInvalidArguments, "%s: %s", at, message)
	e.Details = map[string]any{"file": file, "line": line, "column": max(column, 1)}
	if hint != "" {
		e = e.WithHint("%s", hint)
	}
	return e
}

// toolNameOf returns a tool name made from a file name without its folder and extension.
func toolNameOf(file string) string {
	name := path.Base(file)
	name = strings.TrimSuffix(name, path.Ext(name))
	return strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '_', r == '-', r == '.':
			return r
		}
		return '_'
	}, name)
}

// mainFile returns the name of the file with the functions.
func mainFile(files map[string]string, named string) (string, error) {
	if named != "" {
		if _, ok := files[named]; !ok {
			e := toolroom.Errorf(toolroom.CodeInvalidArguments, "%s names the file %s, which is not there", ManifestFile, named)
			if path.Ext(named) == ".wasm" {
				return "", e.WithHint("build it first, for example with Go: GOOS=wasip1 GOARCH=wasm go build -ldflags=-s -o %s main.go", named)
			}
			return "", e.WithHint("add the file, or correct file: in %s", ManifestFile)
		}
		return named, nil
	}
	var code []string
	for name := range files {
		if languageOf(name, files[name]) != "" && !strings.Contains(name, "/") {
			code = append(code, name)
		}
	}
	slices.Sort(code)
	for _, name := range code {
		if strings.HasPrefix(name, "main.") {
			return name, nil
		}
	}
	switch len(code) {
	case 0:
		return "", toolroom.Errorf(toolroom.CodeInvalidArguments, "there is no code: no file ends in .py, .js, .mjs, .ts or .wasm, or begins with #!").
			WithHint("write one with a function").WithCLIHint("toolroom tool new NAME -l python writes a starter")
	case 1:
		return code[0], nil
	}
	return "", toolroom.Errorf(toolroom.CodeInvalidArguments, "there are several files of code: %s", strings.Join(code, ", ")).
		WithHint("say which has the functions: write file: %s into %s, or rename it to main%s", code[0], ManifestFile, path.Ext(code[0])).
		WithCLIHint("if each is a tool, push them one by one: toolroom tool push %s", code[0])
}

// languages maps file extensions to languages.
var languages = map[string]string{".py": "python", ".js": "javascript", ".mjs": "javascript", ".ts": "typescript", ".mts": "typescript", ".wasm": "wasm"}

// Script is the language of programs that begin with #!.
const Script = "script"

// languageOf returns the language of a file, or "".
func languageOf(name, text string) string {
	language := languages[path.Ext(name)]
	if language == "" && strings.HasPrefix(text, "#!") {
		return Script
	}
	return language
}

// Encode returns a value of a manifest as JSON, or nil for nil.
func Encode(v any) json.RawMessage {
	if v == nil {
		return nil
	}
	text, err := json.Marshal(v)
	if err != nil {
		return nil
	}
	return text
}
