package cli

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/jsonx"
	"github.com/toolroom/toolroom/internal/nearest"
)

// Names of the parameters that are not flags.
const (
	positionals = "_"
	stdinInput  = "stdin"
)

// Limits of a schema. Further flags are accepted by their names.
const (
	maxSchemaFlags = 60
	maxSchemaText  = 100 // bytes of a description
)

// schema describes the arguments. It also accepts flags that the help does not name:
// many programs list only some of theirs, and none is known before the help of a
// sub-command has been read.
func (h *help) schema() json.RawMessage {
	properties := map[string]any{
		positionals: map[string]any{"type": "array", "items": map[string]any{"type": "string"}, "description": "arguments that are no flags, in order"},
		stdinInput:  map[string]any{"type": "string", "description": "text for standard input"},
	}
	if h != nil {
		for _, f := range h.flags {
			if len(properties) == maxSchemaFlags {
				break
			}
			if !f.refused {
				properties[f.name()] = f.schema()
			}
		}
	}
	encoded, err := jsonx.Marshal(map[string]any{
		"type":       "object",
		"properties": properties,
		"additionalProperties": map[string]any{
			"type":        []string{"boolean", "number", "string", "array"},
			"description": "any other flag by its name; true sets it, a list repeats it",
		},
	})
	if err != nil { // strings and lists can always be encoded
		return json.RawMessage(`{"type":"object"}`)
	}
	return encoded
}

// name returns the flag's parameter: its long name with underscores for dashes.
func (f flag) name() string {
	if f.long == "" {
		return f.short
	}
	return strings.ReplaceAll(f.long, "-", "_")
}

func (f flag) schema() map[string]any {
	s := map[string]any{}
	if f.text != "" {
		s["description"] = short(f.text, maxSchemaText)
	}
	switch f.value {
	case noValue:
		s["type"] = "boolean"
	case optionalValue:
		s["type"] = []string{"boolean", "string"}
	case numberValue:
		s["type"] = []string{"number", "string"}
	default:
		s["type"] = []string{"string", "number", "array"}
		s["items"] = map[string]any{"type": []string{"string", "number"}}
	}
	return s
}

// arguments are the arguments of a call as words of a command line.
type arguments struct {
	known, others []string // flags that the help names, and other flags
	words         []string // words that are not flags
	stdin         string
	flags         []given
}

func (h *help) arguments(raw json.RawMessage) (a arguments, err error) {
	doc, err := jsonx.Decode(raw, jsonx.Limits{})
	if err != nil {
		return a, toolroom.Errorf(toolroom.CodeInvalidArguments, "%w", err)
	}
	args, ok := doc.(map[string]any)
	if !ok {
		return a, toolroom.Errorf(toolroom.CodeInvalidArguments, "the arguments must be a JSON object")
	}
	for _, name := range slices.Sorted(maps.Keys(args)) {
		switch name {
		case positionals:
		case stdinInput:
			a.stdin, _ = args[name].(string)
		default:
			f, known, err := h.find(name)
			if err != nil {
				return a, err
			}
			words, err := f.each(args[name])
			if err != nil {
				return a, err
			}
			if len(words) > 0 {
				a.flags = append(a.flags, given{f, known, valueText(args[name]), words})
			}
			if known {
				a.known = append(a.known, words...)
			} else {
				a.others = append(a.others, words...)
			}
		}
	}
	a.words, err = positionalWords(args[positionals])
	return a, err
}

// each writes the flag with a value, or once with each value of a list.
func (f flag) each(value any) ([]string, error) {
	if list, ok := value.([]any); ok {
		var words []string
		for _, element := range list {
			more, err := f.words(element)
			if err != nil {
				return nil, err
			}
			words = append(words, more...)
		}
		return words, nil
	}
	return f.words(value)
}

// find returns the flag of a parameter. It passes on a flag that the help does not
// name, unless it looks like a misspelling of one that it names.
func (h *help) find(name string) (f flag, known bool, err error) {
	for _, f := range h.flags {
		if name == f.name() || name == f.long || name == f.short {
			return f, true, nil
		}
	}
	for _, f := range h.flags {
		if len(name) >= 4 && nearest.IsSlip(name, f.name()) {
			return flag{}, false, toolroom.Errorf(toolroom.CodeInvalidArguments, "unknown flag %q", name).
				WithHint("did you mean %s?", f.name())
		}
	}
	if !flagName().MatchString("--"+name) || strings.ContainsAny(name, "=[ ") {
		return flag{}, false, toolroom.Errorf(toolroom.CodeInvalidArguments, "%q is not a valid flag name", name)
	}
	return flagOf(strings.ReplaceAll(name, "_", "-")), false, nil
}

// flagOf is a flag that the help does not name.
func flagOf(name string) flag {
	if len(name) == 1 {
		return flag{short: name, value: optionalValue}
	}
	return flag{long: name, value: optionalValue, joined: true}
}

// valueText is the text in a value of a flag.
func valueText(value any) string {
	switch value := value.(type) {
	case bool, nil:
		return ""
	case []any:
		var all []string
		for _, element := range value {
			all = append(all, valueText(element))
		}
		return strings.Join(all, " ")
	default:
		return fmt.Sprint(value)
	}
}

// words writes the flag with one value.
func (f flag) words(value any) ([]string, error) {
	name := f.written()
	var text string
	switch value := value.(type) {
	case nil:
		return nil, nil
	case bool:
		switch {
		case f.value != noValue && f.value != optionalValue:
			return nil, toolroom.Errorf(toolroom.CodeInvalidArguments, "the flag %s takes a value, not %v", f.name(), value)
		case value:
			return []string{name}, nil
		case f.negatable:
			return []string{"--no-" + f.long}, nil
		case f.defaultsTrue && f.long != "":
			return []string{name + "=false"}, nil
		default:
			return nil, nil
		}
	case string:
		text = value
	case json.Number:
		text = value.String()
	default:
		return nil, toolroom.Errorf(toolroom.CodeInvalidArguments, "the flag %s takes a string or a number", f.name())
	}
	switch {
	case f.value == noValue:
		return nil, toolroom.Errorf(toolroom.CodeInvalidArguments, "the flag %s takes no value; set it to true", f.name())
	case strings.ContainsRune(text, 0):
		return nil, toolroom.Errorf(toolroom.CodeInvalidArguments, "the value of %s contains a NUL byte", f.name())
	case f.joined && f.long != "":
		return []string{name + "=" + text}, nil
	case f.value == optionalValue: // behind a single letter
		return []string{name + text}, nil
	case len(text) > 1 && text[0] == '-':
		// As a separate word it would be a flag if the program takes no value here,
		// which the help may not say.
		if f.dash {
			return []string{name, text}, nil // find -size -4k
		}
		if f.long != "" {
			name += "="
		}
		return []string{name + text}, nil
	default:
		return []string{name, text}, nil
	}
}

// asParameter formats a word like --depth=1 as the parameter to use instead.
func asParameter(word string) string {
	name, value, joined := strings.Cut(strings.TrimLeft(word, "-"), "=")
	name = strings.ReplaceAll(name, "-", "_")
	if joined {
		return fmt.Sprintf("{%q: %q}", name, value)
	}
	return fmt.Sprintf("{%q: true}", name)
}

// positionalWords returns the positional arguments. It refuses those that look like
// flags, because text that a model has read must not become an option. After a "--"
// argument it accepts anything, if the program understands "--".
func positionalWords(value any) ([]string, error) {
	var list []any
	switch value := value.(type) {
	case nil:
		return nil, nil
	case string:
		list = []any{value}
	case []any:
		list = value
	}
	var words []string
	behind := false
	for i, element := range list {
		text := fmt.Sprint(element)
		switch {
		case strings.ContainsRune(text, 0):
			return nil, toolroom.Errorf(toolroom.CodeInvalidArguments, "_[%d] contains a NUL byte", i)
		case text == "--":
			behind = true
		case !behind && len(text) > 1 && text[0] == '-':
			return nil, toolroom.Errorf(toolroom.CodeInvalidArguments, "_[%d]: %q looks like a flag", i, text).
				WithHint(`give flags by name, for example %s; or put "--" before it in _ if it is meant as text`, asParameter(text))
		}
		words = append(words, text)
	}
	return words, nil
}
