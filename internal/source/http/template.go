package httpsource

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/toolroom/toolroom"
)

// template is text with places for arguments.
type template []part

// part is either literal text or the name of an argument.
type part struct {
	literal  string
	argument string
}

var argumentName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.-]*$`)

func parseTemplate(text string) (template, error) {
	var (
		t       template
		literal strings.Builder
	)
	flush := func() {
		if literal.Len() > 0 {
			t = append(t, part{literal: literal.String()})
			literal.Reset()
		}
	}
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case (c == '{' || c == '}') && i+1 < len(text) && text[i+1] == c:
			literal.WriteByte(c)
			i++
		case c == '{':
			name, _, ok := strings.Cut(text[i+1:], "}")
			if !ok || !argumentName.MatchString(name) {
				return nil, fmt.Errorf("%q: { at byte %d begins no {name}; write {{ for a brace", text, i)
			}
			flush()
			t = append(t, part{argument: name})
			i += len(name) + 1
		case c == '}':
			return nil, fmt.Errorf("%q: } at byte %d ends no {name}; write }} for a brace", text, i)
		default:
			literal.WriteByte(c)
		}
	}
	flush()
	return t, nil
}

// arguments lists the names that t uses.
func (t template) arguments() []string {
	var names []string
	for _, p := range t {
		if p.argument != "" {
			names = append(names, p.argument)
		}
	}
	return names
}

// fill puts the literals through literal and the arguments through value. It
// reports false when an argument is not given.
func (t template) fill(args arguments, literal, value func(string) (string, error)) (string, bool, error) {
	var out strings.Builder
	for _, p := range t {
		text, put := p.literal, literal
		if p.argument != "" {
			raw, given := args.get(p.argument)
			if !given {
				return "", false, nil
			}
			var ok bool
			if text, ok = scalarText(raw); !ok {
				return "", true, badArgument(p.argument, "it is a list or an object, and its place takes a single value")
			}
			put = value
		}
		text, err := put(text)
		if err != nil {
			return "", true, onArgument(p.argument, err)
		}
		out.WriteString(text)
	}
	return out.String(), true, nil
}

func asIs(text string) (string, error) { return text, nil }

// arguments are those of one call. Their values stay as they were written, so
// that large integers survive.
type arguments map[string]json.RawMessage

func parseArguments(raw json.RawMessage) (arguments, error) {
	args := arguments{}
	if len(raw) == 0 {
		return args, nil
	}
	if err := json.Unmarshal(raw, &args); err != nil {
		return nil, toolroom.Errorf(toolroom.CodeInvalidArguments, "the arguments are not a JSON object: %w", err)
	}
	return args, nil
}

// get reports false for an argument that is absent or null.
func (a arguments) get(name string) (json.RawMessage, bool) {
	raw, ok := a[name]
	return raw, ok && string(raw) != "null"
}

// without is a copy of a that lacks names.
func (a arguments) without(names map[string]bool) arguments {
	rest := maps.Clone(a)
	maps.DeleteFunc(rest, func(name string, _ json.RawMessage) bool { return names[name] })
	return rest
}

func (a arguments) names() []string { return slices.Sorted(maps.Keys(a)) }

// scalarText is a string, number or boolean as plain text.
func scalarText(raw json.RawMessage) (string, bool) {
	switch raw[0] {
	case '{', '[':
		return "", false
	case '"':
		var s string
		err := json.Unmarshal(raw, &s)
		return s, err == nil
	default:
		return string(raw), true
	}
}

func badArgument(name, reason string) *toolroom.Error {
	return toolroom.Errorf(toolroom.CodeInvalidArguments, "argument %s cannot be sent: %s", name, reason)
}

// onArgument names the argument that err is about, unless a literal is at
// fault.
func onArgument(name string, err error) error {
	var typed *toolroom.Error
	if name == "" || errors.As(err, &typed) {
		return err
	}
	return badArgument(name, err.Error())
}
