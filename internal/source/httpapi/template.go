package httpapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"strings"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/source/httpcall"
)

// template is text with arguments.
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
				return nil, fmt.Errorf("%q: { at byte %d does not begin a {name}; write {{ for a brace", text, i)
			}
			flush()
			t = append(t, part{argument: name})
			i += len(name) + 1
		case c == '}':
			return nil, fmt.Errorf("%q: } at byte %d does not end a {name}; write }} for a brace", text, i)
		default:
			literal.WriteByte(c)
		}
	}
	flush()
	return t, nil
}

// arguments returns the names of the arguments in t.
func (t template) arguments() []string {
	var names []string
	for _, p := range t {
		if p.argument != "" {
			names = append(names, p.argument)
		}
	}
	return names
}

// fill returns the text of t. It passes literals through literal and arguments through
// value. It reports false if an argument is missing.
func (t template) fill(args httpcall.Arguments, literal, value func(string) (string, error)) (string, bool, error) {
	var out strings.Builder
	for _, p := range t {
		text, put := p.literal, literal
		if p.argument != "" {
			raw, given := args.Get(p.argument)
			if !given {
				return "", false, nil
			}
			var ok bool
			if text, ok = httpcall.ScalarText(raw); !ok {
				return "", true, httpcall.BadArgument(p.argument, "it is a list or an object, and its place takes a single value")
			}
			put = value
		}
		text, err := put(text)
		if err != nil {
			return "", true, withArgumentName(p.argument, err)
		}
		out.WriteString(text)
	}
	return out.String(), true, nil
}

func unchanged(text string) (string, error) { return text, nil }

// without returns a copy of args without names.
func without(args httpcall.Arguments, names map[string]bool) httpcall.Arguments {
	rest := maps.Clone(args)
	maps.DeleteFunc(rest, func(name string, _ json.RawMessage) bool { return names[name] })
	return rest
}

// withArgumentName adds the name of the argument to err, unless a literal caused it.
func withArgumentName(name string, err error) error {
	if _, typed := errors.AsType[*toolroom.Error](err); name == "" || typed {
		return err
	}
	return httpcall.BadArgument(name, err.Error())
}
