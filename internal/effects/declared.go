package effects

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/toolroom/toolroom"
)

// CheckDeclared returns an error if text is not a valid effect of a tool's declaration.
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

// addDeclared adds the effects that a tool declares, with its arguments filled in.
func (c *collector) addDeclared(list []toolroom.Effect, arguments json.RawMessage) {
	args, ok := decodeArguments(arguments)
	for _, e := range list {
		if !strings.Contains(e.Target, "{") {
			c.addFixed(e)
			continue
		}
		if !ok {
			e.Target = ""
			c.addNormalized(e)
			continue
		}
		name, whole := wholeArgument(e.Target)
		if !whole {
			c.addTarget(e, fillTemplate(e.Target, args))
			continue
		}
		if value, given := lookupArgument(args, name); given {
			c.addForValue(e, value)
		}
	}
}

// addFixed adds an effect that is declared without arguments. The author of a fixed command
// knows what it does, so the parts of it that cannot be read do not count as any effect.
func (c *collector) addFixed(e toolroom.Effect) {
	if e.Kind != toolroom.EffectCommand || e.Target == "" {
		c.addTarget(e, e.Target)
		return
	}
	for _, e := range c.readCommandLine(e.Target) {
		if e.Target != "" {
			c.addNormalized(e)
		}
	}
}

// wholeArgument returns the name of the argument if target is {name} and nothing else.
func wholeArgument(target string) (name string, ok bool) {
	if !strings.HasPrefix(target, "{") || strings.Index(target, "}") != len(target)-1 {
		return "", false
	}
	return target[1 : len(target)-1], true
}

// addForValue adds an effect whose target is the value of an argument. A list gives one
// effect for each element, but for a command it is one command with its arguments.
func (c *collector) addForValue(e toolroom.Effect, value any) {
	switch v := value.(type) {
	case []any:
		if e.Kind == toolroom.EffectCommand {
			c.readArgv(v)
			return
		}
		for _, element := range v {
			c.addForValue(e, element)
		}
	case map[string]any:
		e.Target = ""
		c.addNormalized(e)
	default:
		c.addTarget(e, formatScalar(v))
	}
}

// readArgv adds the effects of a program that is given with its arguments as a list.
func (c *collector) readArgv(list []any) {
	argv := make([]string, len(list))
	for i, v := range list {
		argv[i] = formatScalar(v)
		c.charge(argv[i])
	}
	if c.full() {
		return
	}
	for _, e := range ReadArgs(argv, c.base.dir()) {
		c.addNormalized(e)
	}
}

// addTarget adds e with text as its target. If text is a command line or SQL, it adds the
// effects of these.
func (c *collector) addTarget(e toolroom.Effect, text string) {
	var found []toolroom.Effect
	switch {
	case e.Kind == toolroom.EffectCommand && text != "":
		found = c.readCommandLine(text)
	case e.Kind == toolroom.EffectSQL && e.Mode == "" && text != "":
		found = ReadSQL(text)
	default:
		e.Target = text
		found = []toolroom.Effect{e}
	}
	for _, e := range found {
		c.addNormalized(e)
	}
}

// fillTemplate replaces each {name} in template by that argument. It returns "", an unknown
// target, if one of the arguments is missing.
func fillTemplate(template string, args map[string]any) string {
	var b strings.Builder
	for rest := template; ; {
		before, after, opened := strings.Cut(rest, "{")
		b.WriteString(before)
		if !opened {
			return b.String()
		}
		name, after, _ := strings.Cut(after, "}")
		value, given := lookupArgument(args, name)
		if !given {
			return ""
		}
		b.WriteString(formatScalar(value))
		rest = after
	}
}

// lookupArgument returns an argument by its name, or a nested one by its path, such as a.b.
func lookupArgument(args map[string]any, name string) (any, bool) {
	if v, ok := args[name]; ok {
		return v, v != nil
	}
	first, rest, nested := strings.Cut(name, ".")
	inner, ok := args[first].(map[string]any)
	if !nested || !ok {
		return nil, false
	}
	return lookupArgument(inner, rest)
}

func formatScalar(v any) string {
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
