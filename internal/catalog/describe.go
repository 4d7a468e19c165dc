package catalog

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/jsonx"
	"github.com/toolroom/toolroom/internal/schema"
	"github.com/toolroom/toolroom/internal/visible"
	"github.com/toolroom/toolroom/source"
)

const maxDescribeSummary = 200

// Describe describes the entry at a level. The default level is LevelSchema; an unknown
// one is an error with code invalid_arguments. If the source is a
// [source.Refiner], Describe asks it for details.
func (c *Catalog) Describe(ctx context.Context, e *Entry, level toolroom.Level, form toolroom.Form) (*toolroom.Description, error) {
	if level == "" {
		level = toolroom.LevelSchema
	}
	if !slices.Contains([]toolroom.Level{toolroom.LevelSummary, toolroom.LevelSchema, toolroom.LevelFull}, level) {
		return nil, toolroom.Errorf(toolroom.CodeInvalidArguments, "unknown detail level %q", level).
			WithHint("use summary, schema or full")
	}
	if level != toolroom.LevelSummary {
		e = c.refined(ctx, e)
	}
	t := &e.Tool
	d := &toolroom.Description{
		ID:      t.ID.String(),
		Name:    e.ModelName,
		Title:   t.Title,
		Summary: Shorten(t.Description, maxDescribeSummary),
		Source:  t.Source,
		Version: t.ID.Version,
		Call:    ReadyCall(e, form),
	}
	if level == toolroom.LevelSummary {
		return d, nil
	}
	d.InputSchema = t.InputSchema
	d.Guarantee = t.RepeatGuarantee()
	d.Required, d.Defaults, d.Types = schemaDigest(t.InputSchema)
	if err := e.CheckSchemas(); err != nil {
		d.Problem = err.Error()
	}
	if offer := c.providersOf(t.ID); len(offer) > 1 {
		d.Providers, d.ServedBy = offer, e.Provider
	}
	if level == toolroom.LevelSchema {
		return d, nil
	}
	d.Text = t.Description
	d.OutputSchema = t.OutputSchema
	if t.Hints != (toolroom.Hints{}) {
		hints := t.Hints
		d.Hints = &hints
	}
	d.Notes, d.Examples, d.Tags, d.Aliases = t.Notes, t.Examples, t.Tags, t.Aliases
	d.Providers = c.providersOf(t.ID)
	return d, nil
}

// refined returns the entry with all details that its source can find, or the entry
// unchanged if there are none.
func (c *Catalog) refined(ctx context.Context, e *Entry) *Entry {
	f, ok := source.As[source.Refiner](e.Source)
	if !ok {
		return e
	}
	tool, err := f.Refine(ctx, e.Tool.ID)
	if err != nil {
		return e
	}
	refined, err := c.entry(e.Provider, e.Source, tool, func(string) error { return nil })
	if err != nil {
		return e
	}
	return refined
}

func (c *Catalog) providersOf(id toolroom.ID) []string {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return providers(c.offers[id.Unversioned()])
}

func providers(offers []*Entry) []string {
	var names []string
	for _, e := range offers {
		names = append(names, e.Provider)
	}
	return names
}

// schemaDigest extracts the facts that a caller needs first from the top level of a schema.
func schemaDigest(raw json.RawMessage) (required []string, defaults map[string]any, types map[string]string) {
	var s struct {
		Required   []string                   `json:"required"`
		Properties map[string]json.RawMessage `json:"properties"`
		Defs       definitions                `json:"$defs"`
	}
	// A schema of another form has no digest; the description shows all of it anyway.
	if len(raw) == 0 || json.Unmarshal(raw, &s) != nil {
		return nil, nil, nil
	}
	for name, raw := range s.Properties {
		p := s.Defs.property(raw)
		if p.Default != nil {
			if defaults == nil {
				defaults = map[string]any{}
			}
			defaults[name] = p.Default
		}
		if types == nil {
			types = map[string]string{}
		}
		types[name] = p.describe(s.Defs)
	}
	return s.Required, defaults, types
}

// property is the part of a property's schema that a digest shows.
type property struct {
	Type       any                        `json:"type"`
	Default    json.RawMessage            `json:"default"`
	Enum       []json.RawMessage          `json:"enum"`
	Items      json.RawMessage            `json:"items"`
	Properties map[string]json.RawMessage `json:"properties"`
	Ref        string                     `json:"$ref"`
}

type definitions map[string]json.RawMessage

// property returns the property of a schema, or of the definition that the schema refers to.
// A schema in another form allows anything.
func (d definitions) property(raw json.RawMessage) property {
	var p, of property
	if json.Unmarshal(raw, &p) != nil {
		return property{}
	}
	if name, ok := strings.CutPrefix(p.Ref, "#/$defs/"); ok && json.Unmarshal(d[name], &of) == nil {
		if p.Default != nil {
			of.Default = p.Default
		}
		return of
	}
	return p
}

// describe returns the type in words, including the element type of an array and the members
// of an object.
func (p property) describe(d definitions) string {
	if p.Type == "array" && p.Items != nil {
		return "array of " + d.property(p.Items).describeType()
	}
	return p.describeType()
}

func (p property) describeType() string {
	switch {
	case len(p.Enum) > 0:
		return "one of " + joinValues(p.Enum)
	case p.Type == "object" && len(p.Properties) > 0:
		const most = 8
		names := slices.Sorted(maps.Keys(p.Properties))
		if len(names) > most {
			names = append(names[:most], "…")
		}
		return "object {" + strings.Join(names, ", ") + "}"
	}
	switch t := p.Type.(type) {
	case string:
		return t
	case []any:
		return joinTypes(t)
	}
	return "any"
}

func joinTypes(list []any) string {
	parts := make([]string, len(list))
	for i, v := range list {
		parts[i] = fmt.Sprint(v)
	}
	return strings.Join(parts, " | ")
}

// joinValues returns JSON values as people write them: texts without quotes, numbers as they are.
func joinValues(list []json.RawMessage) string {
	parts := make([]string, len(list))
	for i, raw := range list {
		if raw[0] != '"' || json.Unmarshal(raw, &parts[i]) != nil {
			parts[i] = oneLineJSON(raw)
		}
	}
	return strings.Join(parts, " | ")
}

// ReadyCall returns a call of the tool, with its first example or arguments generated
// from its schema.
func ReadyCall(e *Entry, form toolroom.Form) string {
	args := ExampleArguments(e)
	switch form {
	case toolroom.FormMCP:
		return fmt.Sprintf(`{"name": %q, "arguments": %s}`, e.ModelName, args)
	case toolroom.FormMCPSearch:
		return fmt.Sprintf(`{"name": "call_tool", "arguments": {"tool": %q, "arguments": %s}}`, e.Tool.ID, args)
	case toolroom.FormCode:
		if id := e.Tool.ID; isIdentifier(id.Namespace) && isIdentifier(id.Name) {
			return fmt.Sprintf("await tools.%s.%s(%s)", id.Namespace, id.Name, args)
		}
		return fmt.Sprintf("await call_tool(%q, %s)", e.Tool.ID, args)
	case toolroom.FormPython:
		return pythonCall(e, args)
	default:
		return ShellCall(e.Tool.ID.String(), args)
	}
}

// ShellCall returns the command that calls a tool with these arguments.
func ShellCall(tool string, args json.RawMessage) string {
	return "toolroom call " + tool + shellArguments(args)
}

// isIdentifier reports whether name can follow a dot in a program.
func isIdentifier(name string) bool {
	for i, r := range name {
		letter := r == '_' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z'
		if !letter && (i == 0 || r < '0' || r > '9') {
			return false
		}
	}
	return name != ""
}

// ExampleArguments returns arguments that show what e takes: its first example, or
// placeholders of what it requires.
func ExampleArguments(e *Entry) json.RawMessage {
	if len(e.Tool.Examples) > 0 {
		return e.Tool.Examples[0].Arguments
	}
	if args, ok := sketch(e.Tool.InputSchema); ok {
		return args
	}
	if s, err := e.Input(); err == nil && s != nil {
		if example, ok := s.Example(); ok {
			return example
		}
	}
	return json.RawMessage("{}")
}

// sketch generates arguments from the required properties of a simple schema. It does
// not compile the schema, because a search shows the calls of many tools at once.
func sketch(raw json.RawMessage) (json.RawMessage, bool) {
	var s struct {
		Required   []string `json:"required"`
		Properties map[string]struct {
			Type     any               `json:"type"`
			Enum     []json.RawMessage `json:"enum"`
			Examples []json.RawMessage `json:"examples"`
			Default  json.RawMessage   `json:"default"`
			Const    json.RawMessage   `json:"const"`
			Format   string            `json:"format"`
			Pattern  string            `json:"pattern"`
		} `json:"properties"`
	}
	if json.Unmarshal(raw, &s) != nil {
		return nil, false
	}
	args := make(map[string]json.RawMessage, len(s.Required))
	for _, name := range s.Required {
		p := s.Properties[name]
		switch {
		case p.Const != nil:
			args[name] = p.Const
		case p.Default != nil:
			args[name] = p.Default
		case len(p.Examples) > 0:
			args[name] = p.Examples[0]
		case len(p.Enum) > 0:
			args[name] = p.Enum[0]
		case p.Type == "string" && p.Format == "" && p.Pattern == "":
			placeholder, err := jsonx.Marshal("<" + name + ">")
			if err != nil {
				return nil, false
			}
			args[name] = placeholder
		case p.Type == "boolean":
			args[name] = json.RawMessage("true")
		default: // numbers and some texts have bounds, lists and objects have contents
			return nil, false
		}
	}
	out, err := jsonx.Marshal(args)
	return out, err == nil
}

// ExampleWords returns example arguments of a schema for a command line.
func ExampleWords(input json.RawMessage) string {
	args, ok := sketch(input)
	if s, err := schema.Compile(input, schema.Limits{}); !ok && err == nil {
		args, _ = s.Example()
	}
	return strings.TrimPrefix(shellArguments(args), " ")
}

// shellArguments writes arguments as key=value if that is exact and on one line, else as
// one quoted JSON object.
func shellArguments(args json.RawMessage) string {
	var members map[string]any
	in := json.NewDecoder(bytes.NewReader(args))
	in.UseNumber()
	if in.Decode(&members) != nil {
		return " " + quoteShell(string(args))
	}
	object := " " + quoteShell(oneLineJSON(args))
	keys := make([]string, 0, len(members))
	for key := range members {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	var b strings.Builder
	for _, key := range keys {
		var word string
		switch v := members[key].(type) {
		case string:
			word = v
		case bool, json.Number:
			word = fmt.Sprint(v)
		default:
			return object
		}
		// A value of the form @FILE would be read from that file. Line ends, tabs and what
		// people cannot see survive printing and pasting only as escapes of JSON.
		if strings.HasPrefix(word, "@") || !isPrintable(key+word) || !isKeyword(key) {
			return object
		}
		b.WriteString(" " + quoteShell(key+"="+word))
	}
	return b.String()
}

// isKeyword reports whether key=value names a member: = and := end a key, and a word with a dash
// is a flag.
func isKeyword(key string) bool {
	return key != "" && key[0] != '-' && !strings.Contains(key, "=") && !strings.HasSuffix(key, ":")
}

// isPrintable reports whether text is one line that is printed as it is.
func isPrintable(text string) bool {
	return !strings.ContainsAny(text, "\n\r\t") && visible.Text(text) == text
}

// oneLineJSON returns a document of the same value on one line of visible characters.
func oneLineJSON(document json.RawMessage) string {
	var b bytes.Buffer
	if !isPrintable(string(document)) && json.Compact(&b, document) == nil {
		document = visible.JSON(b.Bytes())
	}
	return string(document)
}

// quoteShell quotes a word for a POSIX shell if necessary.
func quoteShell(word string) string {
	plain := func(r rune) bool {
		return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune("_-./:=@%+,", r)
	}
	if word != "" && strings.IndexFunc(word, func(r rune) bool { return !plain(r) }) < 0 {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
