package cli

import (
	"cmp"
	"strings"

	"github.com/toolroom/toolroom/internal/pattern"
)

// flag is one option of a program.
type flag struct {
	long, short string
	text        string
	// value is the kind of value that the option takes.
	value valueKind
	// joinsValue means that the option and its value are one word, --name=value.
	joinsValue bool
	// negatable means that there is an option --no-name. defaultsTrue means that the option
	// is on unless --name=false turns it off.
	negatable, defaultsTrue bool
	// denied means that the schema leaves it out, because calls with it are denied.
	denied bool
	// singleDash means that the long name follows a single dash (find, Java, Go).
	singleDash bool
}

// valueKind is the kind of value that an option takes.
type valueKind int

const (
	noValue valueKind = iota
	optionalValue
	textValue
	numberValue
)

// key returns a name of the option that is unique in a help text.
func (f flag) key() string {
	if f.long != "" {
		return "--" + f.long
	}
	return "-" + f.short
}

// optionName returns the option as it is written on a command line, such as --depth.
func (f flag) optionName() string {
	switch {
	case f.long == "":
		return "-" + f.short
	case f.singleDash:
		return "-" + f.long
	default:
		return "--" + f.long
	}
}

// parseFlag reads one line of a list of options: the names, the kind of value, and
// the description.
func parseFlag(line string) (flag, bool) {
	spec, text := line, ""
	if at := gap().FindStringIndex(line); at != nil {
		spec, text = line[:at[0]], strings.TrimSpace(line[at[1]:])
		// A second name may be separated like a description.
		for strings.HasSuffix(spec, ",") && strings.HasPrefix(text, "-") {
			rest := text
			text = ""
			if at := gap().FindStringIndex(rest); at != nil {
				rest, text = rest[:at[0]], strings.TrimSpace(rest[at[1]:])
			}
			spec += " " + rest
		}
	}
	f := flag{text: text}
	for _, part := range splitNames(spec) {
		f.addName(strings.TrimSpace(part), splitValue)
	}
	return f, f.long != "" || f.short != ""
}

// parseManualTag parses the tag of a paragraph in a manual page, such as "-n, --lines=NUM".
// Everything after a name is the value.
func parseManualTag(tag string) (flag, bool) {
	var f flag
	for _, part := range splitNames(tag) {
		f.addName(strings.TrimSpace(part), func(rest string) (string, string) { return rest, "" })
	}
	return f, f.long != "" || f.short != ""
}

// splitNames splits a list of an option's names, such as "-S, --save" or npm's "-S|--save".
func splitNames(spec string) []string {
	if bars := namesWithBars(); bars.MatchString(spec) { // npm: -S|--save
		spec = strings.ReplaceAll(spec, "|", ", ")
	}
	return strings.Split(strings.ReplaceAll(spec, " | ", ", "), ", ")
}

var (
	flagName      = pattern.Lazy(`^--?(\[no-\])?([A-Za-z0-9?#][A-Za-z0-9_.-]*)(.*)$`)
	namesWithBars = pattern.Lazy(`^-\w(?:\|--?[a-z][a-z-]*)+$`)
)

// addName adds one name of an option to f, with the value and the description that follow the
// name; split separates these two.
func (f *flag) addName(part string, split func(string) (hint, text string)) {
	m := flagName().FindStringSubmatch(part)
	if m == nil {
		return
	}
	name, rest := m[2], strings.TrimSpace(m[3])
	if strings.HasPrefix(part, "--") {
		switch {
		case f.long == "": // tar names some twice
			f.long = name
		case f.long == "no-"+name: // git
			f.long, f.negatable = name, true
		}
		f.negatable = f.negatable || m[1] != ""
	} else if len(name) == 1 {
		f.short = cmp.Or(f.short, name)
	} else if f.long == "" {
		f.long, f.singleDash = name, true
	}
	hint, text := split(rest)
	hint = strings.TrimSpace(hint)
	f.text = cmp.Or(f.text, text)
	switch {
	case hint == "", hint == ":":
		return
	case hint == "=true:":
		f.defaultsTrue = true
	case strings.HasPrefix(hint, "[") && !strings.HasPrefix(hint, "[=") && text != "":
		// In curl's help, brackets enclose a value that is required.
	case strings.HasPrefix(hint, "["):
		f.value, f.joinsValue = optionalValue, true
		return
	}
	if strings.HasPrefix(hint, "=") {
		f.joinsValue = true
		hint = strings.TrimPrefix(hint, "=")
	}
	f.value = valueKindOf(hint)
}

// splitValue separates the value of an option from a description that follows after
// one space. A lower-case word before other words is not a value.
func splitValue(rest string) (hint, text string) {
	if strings.HasPrefix(rest, "<") {
		if end := strings.Index(rest, ">"); end >= 0 {
			return rest[:end+1], strings.TrimSpace(rest[end+1:])
		}
	}
	word, more, found := strings.Cut(rest, " ")
	isValue := strings.HasPrefix(word, "[") || strings.HasPrefix(word, "=") || strings.HasPrefix(more, ":") ||
		word == strings.ToUpper(word) && len(word) > 1
	switch {
	case !found:
		return rest, ""
	case isValue:
		return word, strings.TrimSpace(strings.TrimPrefix(more, ":"))
	default:
		return "", rest
	}
}

// valueKindOf returns the kind of value that an option takes, derived from its
// placeholder or, with kubectl, its default value.
func valueKindOf(hint string) valueKind {
	word := strings.ToLower(strings.Trim(strings.TrimSuffix(hint, ":"), "<>[]{}'\"."))
	switch word {
	case "false", "true":
		return noValue
	case "n", "num", "number", "int", "integer", "uint", "uint16", "int32", "int64", "count", "seconds", "lines", "bytes", "float", "port", "depth":
		return numberValue
	}
	if strings.Trim(word, "-0123456789") == "" && word != "" {
		return numberValue
	}
	return textValue
}
