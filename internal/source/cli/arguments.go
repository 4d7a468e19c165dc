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

// Limits of a schema. Flags that are left out of it can still be passed by name.
const (
	maxSchemaFlags = 60
	maxSchemaText  = 100 // bytes of a description
)

// schema returns the input schema. It also accepts flags that the help does not name, because
// many programs list only some of their flags, and no flag is known before the help of a
// sub-command has been read. h may be nil.
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
			if !f.denied {
				properties[f.parameter()] = f.schema()
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

// parameter returns the name of the flag's parameter: its long name with underscores for
// dashes, or its letter.
func (f flag) parameter() string {
	if f.long == "" {
		return f.short
	}
	return strings.ReplaceAll(f.long, "-", "_")
}

func (f flag) schema() map[string]any {
	s := map[string]any{}
	if f.text != "" {
		s["description"] = shorten(f.text, maxSchemaText)
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

// arguments are the arguments of a call, converted to words of a command line.
type arguments struct {
	known, others []string // words of flags that the help names, and of other flags
	positional    []string // words that are not flags
	stdin         string
	flags         []callFlag
}

// parseArguments converts the arguments of a call. Its errors have code invalid_arguments.
func (h *help) parseArguments(raw json.RawMessage) (a arguments, err error) {
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
			f, known, err := h.findFlag(name)
			if err != nil {
				return a, err
			}
			words, err := f.commandWords(args[name])
			if err != nil {
				return a, err
			}
			if len(words) > 0 {
				a.flags = append(a.flags, callFlag{f, known, valueText(args[name]), words})
			}
			if known {
				a.known = append(a.known, words...)
			} else {
				a.others = append(a.others, words...)
			}
		}
	}
	a.positional, err = readPositionals(args[positionals])
	return a, err
}

// commandWords returns the words of the flag with a value, or once with each value of a list.
func (f flag) commandWords(value any) ([]string, error) {
	if list, ok := value.([]any); ok {
		var words []string
		for _, element := range list {
			more, err := f.wordsForValue(element)
			if err != nil {
				return nil, err
			}
			words = append(words, more...)
		}
		return words, nil
	}
	return f.wordsForValue(value)
}

// findFlag returns the flag of a parameter. It accepts a flag that the help does not name,
// unless it looks like a misspelling of one that the help names.
func (h *help) findFlag(name string) (f flag, known bool, err error) {
	for _, f := range h.flags {
		if name == f.parameter() || name == f.long || name == f.short {
			return f, true, nil
		}
	}
	for _, f := range h.flags {
		if len(name) >= 4 && nearest.IsTypo(name, f.parameter()) {
			return flag{}, false, toolroom.Errorf(toolroom.CodeInvalidArguments, "unknown flag %q", name).
				WithHint("did you mean %s?", f.parameter())
		}
	}
	if !flagName().MatchString("--"+name) || strings.ContainsAny(name, "=[ ") {
		return flag{}, false, toolroom.Errorf(toolroom.CodeInvalidArguments, "%q is not a valid flag name", name)
	}
	return unlistedFlag(strings.ReplaceAll(name, "_", "-")), false, nil
}

// unlistedFlag returns a flag that the help does not name.
func unlistedFlag(name string) flag {
	if len(name) == 1 {
		return flag{short: name, value: optionalValue}
	}
	return flag{long: name, value: optionalValue, joinsValue: true}
}

// valueText returns the text of a flag's value, or "" if it is true, false or null.
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

// wordsForValue returns the words of the flag with one value.
func (f flag) wordsForValue(value any) ([]string, error) {
	name := f.optionName()
	var text string
	switch value := value.(type) {
	case nil:
		return nil, nil
	case bool:
		switch {
		case f.value != noValue && f.value != optionalValue:
			return nil, toolroom.Errorf(toolroom.CodeInvalidArguments, "the flag %s takes a value, not %v", f.parameter(), value)
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
		return nil, toolroom.Errorf(toolroom.CodeInvalidArguments, "the flag %s takes a string or a number", f.parameter())
	}
	switch {
	case f.value == noValue:
		return nil, toolroom.Errorf(toolroom.CodeInvalidArguments, "the flag %s takes no value; set it to true", f.parameter())
	case strings.ContainsRune(text, 0):
		return nil, toolroom.Errorf(toolroom.CodeInvalidArguments, "the value of %s contains a NUL byte", f.parameter())
	case f.joinsValue && f.long != "":
		return []string{name + "=" + text}, nil
	case f.value == optionalValue: // directly after a single letter
		return []string{name + text}, nil
	case len(text) > 1 && text[0] == '-':
		// As a separate word it would be read as a flag if the program takes no value here,
		// and the help may be wrong about that.
		if f.singleDash {
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

// parameterFor returns the JSON parameter to use instead of a word like --depth=1.
func parameterFor(word string) string {
	name, value, joined := strings.Cut(strings.TrimLeft(word, "-"), "=")
	name = strings.ReplaceAll(name, "-", "_")
	if joined {
		return fmt.Sprintf("{%q: %q}", name, value)
	}
	return fmt.Sprintf("{%q: true}", name)
}

// readPositionals returns the positional arguments. It returns an error for those that look
// like flags, because text that a model has read must not become an option. After an argument
// "--" it accepts anything, which is safe if the program understands "--"; for others, see
// sheet.FlagsAfterDashes.
func readPositionals(value any) ([]string, error) {
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
				WithHint(`give flags by name, for example %s; or put "--" before it in _ if it is meant as text`, parameterFor(text))
		}
		words = append(words, text)
	}
	return words, nil
}
