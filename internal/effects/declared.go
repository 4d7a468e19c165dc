package effects

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/toolroom/toolroom"
)

// CheckDeclared tells what is wrong with an effect that is declared of a tool.
func CheckDeclared(text string) error {
	e, err := toolroom.ParseEffect(text)
	if err != nil {
		return err
	}
	for rest := e.Target; ; {
		_, after, opened := strings.Cut(rest, "{")
		if !opened {
			return nil
		}
		name, after, closed := strings.Cut(after, "}")
		if !closed || name == "" {
			return fmt.Errorf("%q: write {name} for an argument", text)
		}
		rest = after
	}
}

// declared notes what a tool says of itself, with its arguments filled in.
func (s *set) declared(list []toolroom.Effect, arguments json.RawMessage) {
	args, ok := decode(arguments)
	for _, e := range list {
		if !strings.Contains(e.Target, "{") {
			s.stated(e)
			continue
		}
		if !ok {
			e.Target = ""
			s.note(e)
			continue
		}
		name, whole := wholeArgument(e.Target)
		if !whole {
			s.meaning(e, fill(e.Target, args))
			continue
		}
		if value, given := lookup(args, name); given {
			s.value(e, value)
		}
	}
}

// stated notes an effect that is declared without arguments. Who declares a command knows
// what it may do: what cannot be read of it is not taken for anything.
func (s *set) stated(e toolroom.Effect) {
	if e.Kind != toolroom.EffectCommand || e.Target == "" {
		s.meaning(e, e.Target)
		return
	}
	for _, e := range s.shell(e.Target) {
		if e.Target != "" {
			s.note(e)
		}
	}
}

// wholeArgument tells {name} alone from a text with arguments in it.
func wholeArgument(target string) (name string, ok bool) {
	if !strings.HasPrefix(target, "{") || strings.Index(target, "}") != len(target)-1 {
		return "", false
	}
	return target[1 : len(target)-1], true
}

// value notes an effect on what an argument says: a list is many, but a list
// for a command is one command with its arguments.
func (s *set) value(e toolroom.Effect, value any) {
	switch v := value.(type) {
	case []any:
		if e.Kind == toolroom.EffectCommand {
			s.argv(v)
			return
		}
		for _, element := range v {
			s.value(e, element)
		}
	case map[string]any:
		e.Target = ""
		s.note(e)
	default:
		s.meaning(e, scalar(v))
	}
}

// argv notes a program with its arguments as a list.
func (s *set) argv(list []any) {
	argv := make([]string, len(list))
	for i, v := range list {
		argv[i] = scalar(v)
		s.charge(argv[i])
	}
	if s.full() {
		return
	}
	for _, e := range ReadArgs(argv, s.place.dir()) {
		s.note(e)
	}
}

// meaning notes an effect whose target is a text that has to be read: a command
// line, or SQL.
func (s *set) meaning(e toolroom.Effect, text string) {
	var found []toolroom.Effect
	switch {
	case e.Kind == toolroom.EffectCommand && text != "":
		found = s.shell(text)
	case e.Kind == toolroom.EffectSQL && e.Mode == "" && text != "":
		found = ReadSQL(text)
	default:
		e.Target = text
		found = []toolroom.Effect{e}
	}
	for _, e := range found {
		s.note(e)
	}
}

// fill puts arguments into a text; without one of them all is unknown.
func fill(template string, args map[string]any) string {
	var b strings.Builder
	for rest := template; ; {
		before, after, opened := strings.Cut(rest, "{")
		b.WriteString(before)
		if !opened {
			return b.String()
		}
		name, after, _ := strings.Cut(after, "}")
		value, given := lookup(args, name)
		if !given {
			return ""
		}
		b.WriteString(scalar(value))
		rest = after
	}
}

// lookup finds an argument, or one within another: a.b.
func lookup(args map[string]any, name string) (any, bool) {
	if v, ok := args[name]; ok {
		return v, v != nil
	}
	first, rest, nested := strings.Cut(name, ".")
	inner, ok := args[first].(map[string]any)
	if !nested || !ok {
		return nil, false
	}
	return lookup(inner, rest)
}

func scalar(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case nil:
		return ""
	case map[string]any, []any:
		text, err := json.Marshal(v)
		if err != nil { // a tree that was decoded from JSON
			return ""
		}
		return string(text)
	default:
		return fmt.Sprint(v)
	}
}
