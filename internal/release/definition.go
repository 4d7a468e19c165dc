package release

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/jsonx"
)

// DefinitionOf returns the spec of a tool as its source defines it now.
func DefinitionOf(source string, tool *toolroom.Tool) (Spec, error) {
	plain := *tool
	plain.Release = nil
	definition, err := json.Marshal(&plain)
	if err != nil {
		return Spec{}, err
	}
	return Spec{
		Source: source, Language: string(tool.Source), Definition: definition, Raw: tool.Raw,
		Title: tool.Title, Description: tool.Description, InputSchema: tool.InputSchema, OutputSchema: tool.OutputSchema, Tags: tool.Tags,
		ReadOnly: tool.Hints.ReadOnly != nil && *tool.Hints.ReadOnly,
	}, nil
}

// Tool returns the tool as its source defined it.
func (s *Spec) Tool() (toolroom.Tool, error) {
	var tool toolroom.Tool
	err := json.Unmarshal(s.Definition, &tool)
	tool.Raw = slices.Clone(s.Raw)
	return tool, err
}

// hiddenMembers are members of Toolroom's own definitions that no model or person sees. The text of
// a source that is passed on has none: a client acts on _meta, too.
var hiddenMembers = []string{"timeout", "concurrency", "output_check"}

// visibleContent returns what the digest of a definition covers: the source's own text if there is one,
// because surfaces pass on what Toolroom does not model, else Toolroom's definition.
func (s *Spec) visibleContent() (any, error) {
	if len(s.Raw) > 0 {
		return jsonx.Decode(s.Raw, jsonx.Limits{})
	}
	doc, err := jsonx.Decode(s.Definition, jsonx.Limits{})
	if object, ok := doc.(map[string]any); ok {
		for _, name := range hiddenMembers {
			delete(object, name)
		}
	}
	return doc, err
}

// CanonicalText returns a JSON text in canonical form, to compare definitions.
func CanonicalText(text json.RawMessage) ([]byte, error) {
	doc, err := jsonx.Decode(text, jsonx.Limits{})
	if err != nil {
		return nil, err
	}
	return canonical(doc)
}

func canonical(doc any) ([]byte, error) {
	plain, err := jsonx.Marshal(doc)
	if err != nil {
		return nil, err
	}
	return jsonx.Canonical(plain)
}

// Change is one place in a definition that differs. Old or New is empty if there was or is
// nothing; texts are without their quotes.
type Change struct {
	// Path is a JSON pointer.
	Path string `json:"path"`
	Old  string `json:"old,omitempty"`
	New  string `json:"new,omitempty"`
}

// Changes compares two definitions from outside. A nil one is empty. Where paths would take
// more than a few megabytes, one change covers all that is below its path.
func Changes(before, after *Spec) []Change {
	c := changes{out: []Change{}, left: maxPaths}
	c.compare("", tryTree(before), tryTree(after))
	return c.out
}

func tryTree(s *Spec) any {
	if s == nil {
		return map[string]any{}
	}
	doc, err := s.visibleContent()
	if err != nil {
		return string(s.Definition)
	}
	return doc
}

var escapes = strings.NewReplacer("~", "~0", "/", "~1")

// changes collects the changes between two definitions.
type changes struct {
	out  []Change
	left int // bytes that paths may still take
}

func (c *changes) compare(path string, a, b any) {
	x, xIsObject := a.(map[string]any)
	y, yIsObject := b.(map[string]any)
	if xIsObject && yIsObject && c.takePaths(path, len(x)+len(y)) {
		names := maps.Clone(x)
		maps.Copy(names, y)
		for _, name := range slices.Sorted(maps.Keys(names)) {
			c.comparePart(path, name, x[name], y[name])
		}
		return
	}
	p, pIsList := a.([]any)
	q, qIsList := b.([]any)
	if pIsList && qIsList && len(p) == len(q) && c.takePaths(path, len(p)) {
		for i := range p {
			c.comparePart(path, strconv.Itoa(i), p[i], q[i])
		}
		return
	}
	if was, is := plainText(a), plainText(b); was != is {
		c.out = append(c.out, Change{path, was, is})
	}
}

// takePaths counts n paths that begin with path, and reports whether the limit allows them.
func (c *changes) takePaths(path string, n int) bool {
	if len(path)*n > c.left {
		return false
	}
	c.left -= len(path) * n
	return true
}

// comparePart compares the values of the member name of the value at path.
func (c *changes) comparePart(path, name string, a, b any) {
	if !reflect.DeepEqual(a, b) {
		c.compare(path+"/"+escapes.Replace(name), a, b)
	}
}

func plainText(v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case string:
		return v
	default:
		return jsonText(v)
	}
}

func jsonText(v any) string {
	text, _ := json.Marshal(v) // it came from JSON
	return string(text)
}

// Additive reports whether a definition only adds to an earlier one: optional parameters,
// and members of the value. Any other difference, such as another word, is not additive.
func Additive(before, after *Spec) bool {
	a, errA := before.visibleContent()
	b, errB := after.visibleContent()
	x, xIsObject := a.(map[string]any)
	y, yIsObject := b.(map[string]any)
	if errA != nil || errB != nil || !xIsObject || !yIsObject {
		return false
	}
	return equalExcept(x, y, func(name string, was, is any) bool {
		switch name {
		case "inputSchema", "input_schema":
			return onlyGrows(object(was), object(is), true)
		case "outputSchema", "output_schema":
			return onlyGrows(object(was), object(is), false)
		}
		return false
	})
}

// equalExcept reports whether two objects are equal, except for members whose change may accepts.
func equalExcept(a, b map[string]any, may func(name string, was, is any) bool) bool {
	names := maps.Clone(a)
	maps.Copy(names, b)
	for name := range names {
		if !reflect.DeepEqual(a[name], b[name]) && !may(name, a[name], b[name]) {
			return false
		}
	}
	return true
}

// onlyGrows reports whether the only change of a schema is that it has more properties. Those of an
// input must be optional.
func onlyGrows(before, after map[string]any, input bool) bool {
	if before == nil || after == nil {
		return false
	}
	was, is := members(before), members(after)
	return equalExcept(before, after, func(name string, x, y any) bool {
		switch name {
		case "properties":
			for property, w := range was {
				i, ok := is[property]
				if !ok || !reflect.DeepEqual(w, i) && !onlyGrows(object(w), object(i), input) {
					return false
				}
			}
			return true
		case "items":
			return onlyGrows(object(x), object(y), input)
		case "required":
			if input {
				return false
			}
			for _, word := range subtract(words(y), words(x)) {
				if _, old := was[word]; old {
					return false
				}
			}
			return len(subtract(words(x), words(y))) == 0
		}
		return false
	})
}

// Head is a version without its content.
type Head struct {
	Tool   string
	Source string // empty for a function
	Number int
	Digest string
	Status Status
	Reason string // why a person deprecated it
	Served bool   // by prod
}

// Offer is a definition that a source offers.
type Offer struct {
	// Version is stored unless one of that digest is there. Its Number is set.
	Version *Version
	// Release makes prod serve it, if prod serves From, zero for none. Demoted is the status
	// of the version that is no longer active.
	Release bool
	From    int
	Demoted Status
}

// Offered is what a source offers of a tool now.
type Offered struct {
	// Version is the offered version, and Served the one that was released, or zero.
	Version int `json:"version"`
	Served  int `json:"served"`
	// Quarantined is why the tool cannot be called, or "".
	Quarantined string `json:"quarantined,omitempty"`
}
