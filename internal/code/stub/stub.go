// Package stub writes declarations of tools in a programming language, for people and
// editors: TypeScript as a .d.ts, Python as a module of stubs.
package stub

import (
	"encoding/json"
	"slices"
	"strings"
	"unicode"

	"github.com/toolroom/toolroom/bridge"
)

// Tool is a tool as programs call it.
type Tool struct {
	ID string
	// Namespace and Name are identifiers: tools.Namespace.Name.
	Namespace, Name string
	// Global means that Namespace is also a global name.
	Global bool
	// Command means that the tool is a command-line program, also below cli, which
	// takes words and options. Server means that it belongs to an MCP server, also
	// below mcp.
	Command, Server bool
	Doc             string
	Input, Output   json.RawMessage
}

// groupByNamespace groups tools by namespace, both sorted by name.
func groupByNamespace(tools []Tool) [][]Tool {
	sorted := slices.Clone(tools)
	slices.SortFunc(sorted, func(a, b Tool) int {
		return strings.Compare(a.Namespace+" "+a.Name, b.Namespace+" "+b.Name)
	})
	var groups [][]Tool
	for _, tool := range sorted {
		if last := len(groups) - 1; last >= 0 && groups[last][0].Namespace == tool.Namespace {
			groups[last] = append(groups[last], tool)
			continue
		}
		groups = append(groups, []Tool{tool})
	}
	return groups
}

// roots are the global names beside tools that contain the namespaces of one kind,
// with those namespaces.
var roots = []struct {
	name, class string // class in Python
	has         func(Tool) bool
}{
	{"mcp", "_Mcp", func(t Tool) bool { return t.Server }},
	{"cli", "_Cli", func(t Tool) bool { return t.Command }},
}

// docLines returns the documentation of a tool as lines, with its id if a program cannot
// derive it from the name.
func docLines(t Tool) []string {
	var lines []string
	text := strings.Map(func(c rune) rune {
		if c != '\n' && unicode.IsControl(c) {
			return ' '
		}
		return c
	}, t.Doc)
	if text = strings.TrimSpace(text); text != "" {
		for line := range strings.Lines(text) {
			lines = append(lines, strings.TrimRight(line, " \t\r\n"))
		}
	}
	if t.ID != t.Namespace+":"+t.Name {
		lines = append(lines, "Tool "+t.ID+".")
	}
	return lines
}

// kind is the type of a value in a schema, as far as types can express it.
type kind struct {
	// At most one of these is set; if none is, any value is allowed.
	literals []bridge.Value
	union    []kind
	all      []kind
	simple   string // string, number, integer, boolean or null
	items    *kind  // of a list
	tuple    []kind
	fields   []field // of an object
	values   *kind   // of an object, by any name
	object   bool
}

type field struct {
	name     string
	kind     kind
	required bool
	doc      string
}

// maxDepth limits how deep types are written out, and maxKinds how many there are in
// one schema; anything beyond is any value. They also end schemas that refer to
// themselves.
const (
	maxDepth = 6
	maxKinds = 1000
)

// reader reads schemas with the definitions of one document.
type reader struct {
	root  bridge.Map
	count int // kinds so far
}

func readSchema(schema json.RawMessage) kind {
	value, err := bridge.FromJSON(schema)
	root, ok := value.(bridge.Map)
	if err != nil || !ok {
		return kind{}
	}
	return (&reader{root: root}).kind(root, 0)
}

func (r *reader) kind(value bridge.Value, depth int) kind {
	s, ok := value.(bridge.Map)
	if r.count++; !ok || depth > maxDepth || r.count > maxKinds {
		return kind{}
	}
	if target := s.Text("$ref"); target != "" {
		return r.kind(r.resolve(target), depth+1)
	}
	if one, ok := member(s, "const"); ok && isScalar(one) {
		return kind{literals: []bridge.Value{one}}
	}
	if list := listAt(s, "enum"); len(list) > 0 && !slices.ContainsFunc(list, func(v bridge.Value) bool { return !isScalar(v) }) {
		return kind{literals: list}
	}
	for _, name := range []string{"anyOf", "oneOf"} {
		if list := listAt(s, name); len(list) > 0 {
			return kind{union: r.kinds(list, depth)}
		}
	}
	if list := listAt(s, "allOf"); len(list) > 0 {
		all := r.kinds(list, depth)
		if rest := r.typed(s, s.Text("type"), depth); len(rest.fields) > 0 {
			all = append(all, rest)
		}
		return kind{all: all}
	}
	if list := listAt(s, "type"); len(list) > 0 {
		var union []kind
		for _, one := range list {
			name, _ := one.(string)
			union = append(union, r.typed(s, name, depth))
		}
		return kind{union: union}
	}
	return r.typed(s, s.Text("type"), depth)
}

func (r *reader) kinds(list []bridge.Value, depth int) []kind {
	kinds := make([]kind, len(list))
	for i, one := range list {
		kinds[i] = r.kind(one, depth+1)
	}
	return kinds
}

func (r *reader) typed(s bridge.Map, name string, depth int) kind {
	properties, _ := s.Get("properties").(bridge.Map)
	switch {
	case name == "array":
		if list := listAt(s, "prefixItems"); len(list) > 0 {
			return kind{tuple: r.kinds(list, depth)}
		}
		items := r.kind(s.Get("items"), depth+1)
		return kind{items: &items}
	case name == "object" || name == "" && len(properties) > 0:
		return r.object(s, properties, depth)
	case slices.Contains([]string{"string", "number", "integer", "boolean", "null"}, name):
		return kind{simple: name}
	}
	return kind{}
}

func (r *reader) object(s, properties bridge.Map, depth int) kind {
	required := map[string]bool{}
	for _, value := range listAt(s, "required") {
		if name, ok := value.(string); ok {
			required[name] = true
		}
	}
	k := kind{object: true}
	for _, p := range properties {
		about, _ := p.Value.(bridge.Map)
		k.fields = append(k.fields, field{
			name: p.Key, kind: r.kind(p.Value, depth+1), required: required[p.Key], doc: about.Text("description"),
		})
	}
	if more, ok := s.Get("additionalProperties").(bridge.Map); ok && len(k.fields) == 0 {
		values := r.kind(more, depth+1)
		k.values = &values
	}
	return k
}

// resolve follows a reference within the document.
func (r *reader) resolve(target string) bridge.Value {
	path, ok := strings.CutPrefix(target, "#/")
	if !ok {
		return nil
	}
	var at bridge.Value = r.root
	for step := range strings.SplitSeq(path, "/") {
		m, ok := at.(bridge.Map)
		if !ok {
			return nil
		}
		at = m.Get(strings.NewReplacer("~1", "/", "~0", "~").Replace(step))
	}
	return at
}

func member(m bridge.Map, key string) (bridge.Value, bool) {
	for _, one := range m {
		if one.Key == key {
			return one.Value, true
		}
	}
	return nil, false
}

func listAt(m bridge.Map, key string) []bridge.Value {
	list, _ := m.Get(key).([]bridge.Value)
	return list
}

func isScalar(v bridge.Value) bool {
	switch v.(type) {
	case nil, bool, string, int64, float64:
		return true
	}
	return false
}

// literal returns a scalar as JSON, which is also a literal in TypeScript.
func literal(v bridge.Value) string {
	text, err := bridge.ToJSON(v)
	if err != nil {
		return "null" // cannot happen for a scalar
	}
	return string(text)
}

// joinDistinct joins the distinct texts, in order.
func joinDistinct(texts []string, sep string) string {
	var kept []string
	seen := make(map[string]bool, len(texts)) // an enum may have 100,000 values
	for _, text := range texts {
		if !seen[text] {
			seen[text] = true
			kept = append(kept, text)
		}
	}
	return strings.Join(kept, sep)
}
