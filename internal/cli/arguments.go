package cli

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/jsonx"
	"github.com/toolroom/toolroom/internal/nearest"
)

// isDocument reports whether the arguments of a call are one JSON document, written as
// text, @file or - for stdin, rather than words of the form key=value.
func isDocument(words []string) bool {
	if len(words) != 1 {
		return false
	}
	word := strings.TrimSpace(words[0])
	return word == "-" || strings.HasPrefix(word, "@") || strings.HasPrefix(word, "{")
}

// documentArguments reads a document for which isDocument is true.
func (a *cli) documentArguments(word string) (json.RawMessage, error) {
	data := []byte(word)
	if path, ok := strings.CutPrefix(word, "@"); ok || word == "-" {
		var err error
		if data, err = a.document(path); err != nil {
			return nil, err
		}
	}
	// The runner's message would not say where the mistake is.
	if err := jsonx.Check(data, jsonx.Limits{Bytes: maxDocument}); err != nil {
		e := toolroom.Errorf(toolroom.CodeInvalidArguments, "invalid JSON in the arguments: %w", err)
		return nil, e.WithHint(`write '{"key": "value"}', or key=value`)
	}
	return data, nil
}

// wordParser parses arguments of the form key=value. The schema decides their types:
//
//	key=text        a string if the schema allows one, else JSON; without a
//	                type, JSON if it is valid, else a string
//	key=a key=b     an array
//	a.b=1           the member b of the object a, if the schema has it
//	key=@file       the text of a file; @- is stdin
//	key:=json       JSON, whatever the schema says; also key:=@file
//
// It collects all mistakes, so that a person sees them together.
type wordParser struct {
	read     func(path string) ([]byte, error)
	problems []string
	hint     string
}

// word is one key=value argument.
type word struct {
	path  []string // member names, outermost first
	key   string   // as typed
	text  string
	raw   bool // JSON, whatever the schema says
	shape shape
}

// parseWords returns the object that words of the form key=value describe; see wordParser.
func parseWords(args []string, schema json.RawMessage, read func(string) ([]byte, error)) (json.RawMessage, error) {
	w := &wordParser{read: read}
	top := shapeOf(schema)
	var order []string
	same := map[string][]word{}
	for _, arg := range args {
		parsed, ok, err := w.parse(arg, top)
		if err != nil {
			return nil, err
		}
		if !ok {
			continue
		}
		id := strings.Join(parsed.path, "\x00")
		if _, known := same[id]; !known {
			order = append(order, id)
		}
		same[id] = append(same[id], parsed)
	}
	object := map[string]any{}
	for _, id := range order {
		list := same[id]
		if value, ok := w.combine(list); ok {
			w.setMember(object, list[0], value)
		}
	}
	if len(w.problems) > 0 {
		return nil, toolroom.Errorf(toolroom.CodeInvalidArguments, "%s", strings.Join(w.problems, "\n")).WithHint("%s", w.hint)
	}
	return jsonx.Marshal(object)
}

// parseValue reads the value of a flag: JSON of the schema's type, or else the text of
// key=text.
func parseValue(flag, text string, schema json.RawMessage) (json.RawMessage, error) {
	if !utf8.ValidString(text) {
		return nil, toolroom.Errorf(toolroom.CodeInvalidArguments, "%s %q is not UTF-8 text", flag, truncate(text, 40))
	}
	w, s := &wordParser{}, shapeOf(schema)
	if value, err := jsonx.Decode([]byte(text), jsonx.Limits{}); err == nil && hasType(s.types(), value) {
		return json.RawMessage(text), nil
	}
	value, ok := w.convert(word{key: flag, text: text}, s)
	if !ok {
		return nil, toolroom.Errorf(toolroom.CodeInvalidArguments, "%s", strings.Join(w.problems, "\n")).WithHint("%s", w.hint)
	}
	return jsonx.Marshal(value)
}

// addProblem records a mistake. Only the first hint is shown.
func (w *wordParser) addProblem(hint, format string, args ...any) {
	w.problems = append(w.problems, fmt.Sprintf(format, args...))
	if w.hint == "" {
		w.hint = hint
	}
}

// isSchemaValue reports whether the schema names a text that begins with @, such as @daily, as
// a value of the argument. Such a text is not the name of a file.
func (w *wordParser) isSchemaValue(top shape, key string, raw bool, text string) bool {
	quiet := &wordParser{read: w.read}
	_, s, ok := quiet.locate(top, key, raw)
	if !ok {
		return false
	}
	first, _, _ := strings.Cut(text, " ") // of @every 90m
	return slices.Contains(s.values(), text) || slices.ContainsFunc(strings.FieldsFunc(s.description(), func(r rune) bool {
		return strings.ContainsRune(" ,;:()`\"", r)
	}), func(word string) bool { return strings.TrimRight(word, ".") == first })
}

// parse parses one word; ok is false if it recorded a mistake in the key.
func (w *wordParser) parse(arg string, top shape) (parsed word, ok bool, err error) {
	key, text, found := strings.Cut(arg, "=")
	key, raw := strings.CutSuffix(key, ":")
	if !found || key == "" {
		hint := `key=value, key:=json, or one '{"key": "value"}'`
		if names := top.names(); key == arg && len(names) == 1 {
			hint = "its argument is " + names[0] + ": write " + names[0] + "=VALUE"
		}
		return word{}, false, usage(hint, "%q is not an argument of a call", arg)
	}
	if path, ok := strings.CutPrefix(text, "@"); ok && !w.isSchemaValue(top, key, raw, text) {
		data, err := w.read(path)
		if err != nil {
			return word{}, false, fmt.Errorf("%s: %w", key, err)
		}
		text = string(data)
	}
	if !utf8.ValidString(key) || !utf8.ValidString(text) {
		w.addProblem("pass a path, or UTF-8 text", "%q is not UTF-8 text", truncate(arg, 40))
		return word{}, false, nil
	}
	parsed = word{key: key, text: text, raw: raw}
	parsed.path, parsed.shape, ok = w.locate(top, key, raw)
	return parsed, ok, nil
}

// locate finds the member that a key names.
func (w *wordParser) locate(at shape, key string, raw bool) (path []string, found shape, ok bool) {
	rest := key
	for {
		if member, ok := at.member(rest); ok {
			return append(path, rest), member, true
		}
		name, inner, dotted := strings.Cut(rest, ".")
		if member, ok := at.member(name); dotted && inner != "" && ok && (member.allows("object") || len(member.names()) > 0) {
			path, at, rest = append(path, name), member, inner
			continue
		}
		break
	}
	if at.allowsUnknown() || raw {
		return append(path, rest), at.unknownMember(), true
	}
	names := at.names()
	hint := "the arguments are " + strings.Join(names, ", ")
	if near, ok := nearest.Of(rest, names); ok {
		hint = "did you mean " + strings.Join(append(slices.Clone(path), near), ".") + "?"
	}
	w.addProblem(hint, "unknown argument %q", key)
	return nil, shape{}, false
}

// combine returns the combined value of all words with the same key.
func (w *wordParser) combine(list []word) (any, bool) {
	first := list[0]
	if len(list) == 1 {
		return w.convert(first, first.shape)
	}
	if types := first.shape.types(); len(types) > 0 && !slices.Contains(types, "array") {
		w.addProblem("pass it once", "%s is set %d times, but takes one %s", first.key, len(list), strings.Join(types, " or "))
		return nil, false
	}
	items := first.shape.items()
	array := make([]any, 0, len(list))
	for _, word := range list {
		item, ok := w.convert(word, items)
		if !ok {
			return nil, false
		}
		array = append(array, item)
	}
	return array, true
}

// convert returns the value of one word for a schema; ok is false if it recorded a mistake.
func (w *wordParser) convert(word word, s shape) (any, bool) {
	types := s.types()
	if !word.raw && slices.Contains(types, "string") {
		// A program's flag can be both a switch and a text.
		if slices.Contains(types, "boolean") && (word.text == "true" || word.text == "false") {
			return word.text == "true", true
		}
		return word.text, true
	}
	value, err := jsonx.Decode([]byte(word.text), jsonx.Limits{})
	switch {
	case word.raw && err != nil:
		w.addProblem("quote it for your shell, for example "+word.key+`:='"text"'`, "%s is not valid JSON: %s", word.key, err)
		return nil, false
	case word.raw:
		return value, true
	case len(types) == 0 && err != nil:
		return word.text, true
	case len(types) == 0 || err == nil && hasType(types, value):
		return value, true
	case slices.Contains(types, "array"):
		if items := s.items(); !slices.Contains(items.types(), "object") || err == nil {
			item, ok := w.convert(word, items)
			return []any{item}, ok
		}
		w.addProblem(fmt.Sprintf(`write %s as JSON such as [{"key": 1}]`, word.key), "%s is of type array of object, and %q is not", word.key, truncate(word.text, 40))
		return nil, false
	}
	want := strings.Join(types, " or ")
	w.addProblem(fmt.Sprintf("write %s as %s", word.key, exampleOfType(types[0])), "%s is of type %s, and %q is not", word.key, want, truncate(word.text, 40))
	return nil, false
}

// setMember sets the member that a word names. Two words for the same member are a mistake.
func (w *wordParser) setMember(object map[string]any, word word, value any) {
	for _, name := range word.path[:len(word.path)-1] {
		switch inner := object[name].(type) {
		case nil:
			next := map[string]any{}
			object[name], object = next, next
		case map[string]any:
			object = inner
		default:
			w.addProblem("pass it once", "%s is part of %s, which already has a value", word.key, name)
			return
		}
	}
	last := word.path[len(word.path)-1]
	if _, taken := object[last]; taken {
		w.addProblem("pass it once", "%s is set both as a whole and in parts", word.key)
		return
	}
	object[last] = value
}

// hasType reports whether a value has one of the types.
func hasType(types []string, value any) bool {
	switch value.(type) {
	case nil:
		return slices.Contains(types, "null")
	case bool:
		return slices.Contains(types, "boolean")
	case json.Number:
		return slices.Contains(types, "number") || slices.Contains(types, "integer")
	case string:
		return slices.Contains(types, "string")
	case []any:
		return slices.Contains(types, "array")
	default:
		return slices.Contains(types, "object")
	}
}

// exampleOfType describes what to type for a value of a JSON type.
func exampleOfType(jsonType string) string {
	switch jsonType {
	case "integer":
		return "a whole number such as 3"
	case "number":
		return "a number such as 3.5"
	case "boolean":
		return "true or false"
	case "array":
		return "JSON such as [1, 2]"
	case "object":
		return `JSON such as {"key": 1}`
	default:
		return jsonType
	}
}
