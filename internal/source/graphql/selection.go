package graphql

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/toolroom/toolroom"
)

// Limits of default selections and of those from callers.
const (
	defaultDepth   = 2
	maxDepth       = 10
	maxDefaults    = 120 // fields of a default selection
	maxSteps       = 20_000
	maxSelected    = 1000
	maxSelection   = 32 << 10 // bytes of text
	maxUnionMember = 8
)

// defaultBuilder builds the default selection of a type: its plain fields, and those of the objects
// in it, to a depth. Fields with arguments are left out, because they are queries of their
// own, often with a required page size; and so are types that contain themselves.
type defaultBuilder struct {
	*schema
	fieldsLeft int
	stepsLeft  int // fields and types that are still looked at
	// union are the types of the fields that the members of a union have so far; nil outside of
	// a union. A response may not have a name for fields of several types, also if no object
	// has them all.
	union map[string]string
}

// selectionOf returns the selection without braces, or "" if the type has nothing to select.
func (d *defaultBuilder) selectionOf(name string, depth int, path []string) string {
	t := d.types[name]
	if d.stepsLeft--; t == nil || depth == 0 || d.stepsLeft < 0 || slices.Contains(path, name) {
		return ""
	}
	path = append(slices.Clip(path), name)
	union := d.union
	d.union = nil // what is below has names of its own
	var words []string
	if t.Kind == "UNION" || t.Kind == "INTERFACE" {
		words = append(words, "__typename")
	}
	if t.Kind == "UNION" {
		fields := map[string]string{}
		for _, member := range t.PossibleTypes[:min(len(t.PossibleTypes), maxUnionMember)] {
			d.union = fields
			if inner := d.selectionOf(member.Name, depth, path); inner != "" {
				words = append(words, "... on "+member.Name+" { "+inner+" }")
			}
		}
		d.union = nil
		return strings.Join(words, " ")
	}
	alias := func(f field) string {
		if other, taken := union[f.Name]; taken && other != f.Type.String() {
			return name + "_" + f.Name + ": "
		}
		if union != nil {
			union[f.Name] = f.Type.String()
		}
		return ""
	}
	for _, plain := range []bool{true, false} { // plain ones first, while there is room
		for _, f := range t.Fields {
			if d.stepsLeft--; d.fieldsLeft <= 0 || d.stepsLeft < 0 {
				return strings.Join(words, " ")
			}
			if d.composite(f.Type) == plain || !isName(f.Name) || len(f.Args) > 0 && (!plain || slices.ContainsFunc(f.Args, input.required)) {
				continue
			}
			if plain {
				d.fieldsLeft--
				words = append(words, alias(f)+f.Name)
				continue
			}
			if inner := d.selectionOf(f.Type.inner().Name, depth-1, path); inner != "" {
				words = append(words, alias(f)+f.Name+" { "+inner+" }")
			}
		}
	}
	return strings.Join(words, " ")
}

// defaultSelection returns the default selection of a type; at least one field.
func (s *schema) defaultSelection(name string, depth int) string {
	d := defaultBuilder{schema: s, fieldsLeft: maxDefaults, stepsLeft: maxSteps}
	if text := d.selectionOf(name, depth, []string{s.query, s.mutation}); text != "" {
		return text
	}
	return "__typename"
}

// selectionParser reads what a caller selects, such as "id owner { login } issues(first: 5) { nodes
// { title } }", and writes it anew, so that no text of the caller gets into a query: fields,
// arguments with literal values, and fragments on types.
type selectionParser struct {
	*schema
	text       string
	at         int
	fieldsLeft int
	built      strings.Builder
}

// parseSelection returns the selection, checked against a type.
func (s *schema) parseSelection(name, text string) (string, error) {
	if len(text) > maxSelection {
		return "", badSelection(0, "it is longer than %d bytes", maxSelection)
	}
	p := &selectionParser{schema: s, text: text, fieldsLeft: maxSelected}
	braces := p.peek() == "{"
	if braces {
		p.next()
	}
	if err := p.parseFields(name, 1); err != nil {
		return "", err
	}
	if braces && p.next() != "}" {
		return "", badSelection(p.at, "a brace is not closed")
	}
	if rest := p.peek(); rest != "" {
		return "", badSelection(p.at, "%q is not expected", rest)
	}
	if p.built.Len() == 0 {
		return "", badSelection(0, "it selects nothing")
	}
	return strings.TrimSpace(p.built.String()), nil
}

func badSelection(at int, format string, args ...any) error {
	return toolroom.Errorf(toolroom.CodeInvalidArguments, "fields, at character %d: %s", at+1, fmt.Sprintf(format, args...)).
		WithHint("write names, and in braces those of objects: id name owner { login }")
}

// parseFields reads fields up to a closing brace or the end.
func (p *selectionParser) parseFields(name string, depth int) error {
	if depth > maxDepth {
		return badSelection(p.at, "it is nested deeper than %d", maxDepth)
	}
	for {
		begin := p.at
		word := p.peek()
		switch {
		case word == "" || word == "}":
			return nil
		case word == "...":
			p.next()
			if err := p.parseFragment(depth); err != nil {
				return err
			}
			continue
		case !isName(word):
			return badSelection(begin, "%q is not the name of a field", word)
		}
		p.next()
		if p.fieldsLeft--; p.fieldsLeft < 0 {
			return badSelection(begin, "it selects more than %d fields", maxSelected)
		}
		if word == "__typename" {
			p.built.WriteString("__typename ")
			continue
		}
		if name == p.query || name == p.mutation {
			// Rules, include and exclude are about tools.
			return badSelection(begin, "%s.%s is a tool of its own", name, word)
		}
		f := p.field(name, word)
		if f == nil {
			return badSelection(begin, "%s has no field %s", name, word)
		}
		p.built.WriteString(word)
		if err := p.parseArguments(f); err != nil {
			return err
		}
		if err := p.parseInner(f, depth); err != nil {
			return err
		}
	}
}

// parseInner reads the fields of a field's value.
func (p *selectionParser) parseInner(f *field, depth int) error {
	object := p.composite(f.Type)
	switch braces := p.peek() == "{"; {
	case !braces && object:
		// Its plain fields, so that a name alone is never an error.
		p.built.WriteString(" { " + p.defaultSelection(f.Type.inner().Name, 1) + " } ")
		return nil
	case braces && !object:
		return badSelection(p.at, "%s has no fields", f.Name)
	case !braces:
		p.built.WriteString(" ")
		return nil
	}
	return p.parseBraces(f.Type.inner().Name, depth)
}

func (p *selectionParser) parseBraces(name string, depth int) error {
	p.next()
	p.built.WriteString(" { ")
	from := p.built.Len()
	if err := p.parseFields(name, depth+1); err != nil {
		return err
	}
	if p.peek() != "}" {
		return badSelection(p.at, "a brace is not closed")
	}
	p.next()
	if p.built.Len() == from {
		return badSelection(p.at, "the braces are empty")
	}
	p.built.WriteString("} ")
	return nil
}

// parseFragment reads ... on TYPE { fields }.
func (p *selectionParser) parseFragment(depth int) error {
	begin := p.at
	on := p.next()
	name := p.next()
	if on != "on" || p.types[name] == nil || p.peek() != "{" {
		return badSelection(begin, "a fragment is ... on TYPE { fields }")
	}
	p.built.WriteString("... on " + name)
	return p.parseBraces(name, depth)
}

// parseArguments reads (name: value, …).
func (p *selectionParser) parseArguments(f *field) error {
	given := map[string]bool{}
	if p.peek() == "(" {
		p.next()
		p.built.WriteString("(")
		for p.peek() != ")" {
			begin := p.at
			name := p.next()
			if !slices.ContainsFunc(f.Args, func(a input) bool { return a.Name == name }) || given[name] {
				return badSelection(begin, "%s has no argument %q", f.Name, name)
			}
			given[name] = true
			if p.next() != ":" {
				return badSelection(begin, "the argument %s has no value", name)
			}
			p.built.WriteString(name + ": ")
			if err := p.parseValue(0); err != nil {
				return err
			}
			p.built.WriteString(" ")
		}
		p.next()
		p.built.WriteString(")")
	}
	for _, a := range f.Args {
		if a.required() && !given[a.Name] {
			return badSelection(p.at, "%s needs the argument %s: %s", f.Name, a.Name, a.Type)
		}
	}
	return nil
}

// parseValue reads a literal.
func (p *selectionParser) parseValue(depth int) error {
	begin := p.at
	word := p.next()
	switch {
	case depth > maxDepth:
		return badSelection(begin, "a value is nested deeper than %d", maxDepth)
	case word == "[":
		p.built.WriteString("[")
		for p.peek() != "]" {
			if err := p.parseValue(depth + 1); err != nil {
				return err
			}
			p.built.WriteString(" ")
		}
		p.next()
		p.built.WriteString("]")
	case word == "{":
		p.built.WriteString("{")
		for p.peek() != "}" {
			name := p.next()
			if !isName(name) || p.next() != ":" {
				return badSelection(begin, "an object is {name: value}")
			}
			p.built.WriteString(name + ": ")
			if err := p.parseValue(depth + 1); err != nil {
				return err
			}
			p.built.WriteString(" ")
		}
		p.next()
		p.built.WriteString("}")
	case strings.HasPrefix(word, `"`):
		var text string
		if err := json.Unmarshal([]byte(word), &text); err != nil {
			return badSelection(begin, "%s is not a string", word)
		}
		quoted, err := json.Marshal(text) // its escapes are GraphQL's, too
		if err != nil {
			return badSelection(begin, "%s is not a string", word)
		}
		p.built.Write(quoted)
	case isName(word), isNumber(word):
		p.built.WriteString(word)
	default:
		return badSelection(begin, "%q is not a value", word)
	}
	return nil
}

func isNumber(word string) bool {
	_, err := strconv.ParseFloat(word, 64)
	return err == nil && strings.Trim(word, "0123456789.eE+-") == "" && json.Valid([]byte(word))
}

func (p *selectionParser) peek() string {
	at := p.at
	word := p.next()
	p.at = at
	return word
}

// next returns the next token, or "" at the end.
func (p *selectionParser) next() string {
	for p.at < len(p.text) && strings.IndexByte(" \t\r\n,", p.text[p.at]) >= 0 {
		p.at++
	}
	if p.at == len(p.text) {
		return ""
	}
	rest, n := p.text[p.at:], 0
	switch c := rest[0]; {
	case strings.HasPrefix(rest, "..."):
		n = 3
	case c == '"':
		n = 1
		for n < len(rest) && rest[n] != '"' {
			if rest[n] == '\\' {
				n++
			}
			n++
		}
		n = min(n+1, len(rest))
	case isWord(c):
		for n < len(rest) && isWord(rest[n]) {
			n++
		}
	default:
		_, n = utf8.DecodeRuneInString(rest)
	}
	p.at += n
	return rest[:n]
}

func isWord(c byte) bool {
	return c == '_' || c == '-' || c == '+' || c == '.' || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}
