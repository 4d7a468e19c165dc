package clisource

import (
	"slices"
	"strings"

	"github.com/toolroom/toolroom/internal/pattern"
)

// help is what a program's help text tells.
type help struct {
	about    string // the first line that is no usage
	flags    []flag
	commands []subcommand
}

type subcommand struct{ name, text string }

// flag is one option of a program.
type flag struct {
	long, short string
	text        string
	// value says what the option takes.
	value valueKind
	// joined options are written --name=value, others as two words.
	joined bool
	// negatable options have a form --no-name.
	negatable bool
}

type valueKind int

const (
	noValue valueKind = iota
	optionalValue
	textValue
	numberValue
)

func (h *help) text(command string) string {
	for _, c := range h.commands {
		if c.name == command {
			return c.text
		}
	}
	return ""
}

func (h *help) has(command string) bool {
	return slices.ContainsFunc(h.commands, func(c subcommand) bool { return c.name == command })
}

// Limits of what is read from a help text: no program has more, and a hostile
// one cannot make more of it.
const (
	maxFlags    = 500
	maxCommands = 500
	maxHelpLine = 1000
)

var (
	// A line of a list of commands: indented, a word, and a description set off
	// by two spaces or a colon.
	commandLine = pattern.Lazy(`^(?: {1,8}|\t)([a-z][a-z0-9_-]*)\*?(?::\s+|\s{2,}|\t)(\S.*)$`)
	// A usage that takes a command.
	takesCommand = pattern.Lazy(`(?i)<(?:sub)?command>|\[(?:sub)?command\]|\bcommand\b`)
	// A heading over a list of commands.
	commandHeading = pattern.Lazy(`(?i)^\S.*commands?\b.*:?\s*$`)
	gap            = pattern.Lazy(`\s{2,}|\t`)
)

// parseHelp reads the help of programs in the styles of GNU, git, curl, cobra
// (docker, gh), kubectl, argparse and Go. What it does not understand it leaves
// out; it never fails.
func parseHelp(text string) *help {
	h := &help{}
	listing := false // commands may be listed here
	usage := strings.Builder{}
	seen := map[string]bool{}
	for _, line := range strings.Split(text, "\n") {
		line = strings.TrimRight(line, " \r")
		if len(line) > maxHelpLine {
			continue
		}
		trimmed := strings.TrimSpace(line)
		lower := strings.ToLower(trimmed)
		switch {
		case trimmed == "":
		case strings.HasPrefix(lower, "usage:"), strings.HasPrefix(lower, "or:"):
			usage.WriteString(line + "\n")
			listing = listing || takesCommand().MatchString(line)
		case strings.HasPrefix(trimmed, "-"):
			if f, ok := parseFlag(trimmed); ok && len(h.flags) < maxFlags && !seen[f.key()] {
				seen[f.key()] = true
				h.flags = append(h.flags, f)
			}
		case commandHeading().MatchString(line):
			listing = true
		case len(h.flags) == 0 && usage.Len() > 0 && len(h.commands) == 0 && strings.HasPrefix(line, " ") && takesCommand().MatchString(line):
			listing = true // a usage over several lines
		default:
			if m := commandLine().FindStringSubmatch(line); listing && m != nil && len(h.commands) < maxCommands && !seen["command "+m[1]] {
				seen["command "+m[1]] = true
				h.commands = append(h.commands, subcommand{m[1], m[2]})
			} else if h.about == "" && line[0] != ' ' && line[0] != '\t' {
				h.about = trimmed
			}
		}
	}
	return h
}

func (f flag) key() string {
	if f.long != "" {
		return "--" + f.long
	}
	return "-" + f.short
}

// parseFlag reads one line of a list of options: its names, what it takes, and
// its description.
func parseFlag(line string) (flag, bool) {
	spec, text := line, ""
	if at := gap().FindStringIndex(line); at != nil {
		spec, text = line[:at[0]], strings.TrimSpace(line[at[1]:])
		// A second name may be set off like a description.
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
	for _, part := range strings.Split(strings.ReplaceAll(spec, " | ", ", "), ", ") {
		f.take(strings.TrimSpace(part))
	}
	return f, f.long != "" || f.short != ""
}

var flagName = pattern.Lazy(`^--?(\[no-\])?([A-Za-z0-9?#][A-Za-z0-9_.-]*)(.*)$`)

// take reads one name of an option and what stands behind it.
func (f *flag) take(part string) {
	m := flagName().FindStringSubmatch(part)
	if m == nil {
		return
	}
	name, rest := m[2], strings.TrimSpace(m[3])
	if strings.HasPrefix(part, "--") {
		if f.long == "" { // tar names some twice
			f.long = name
		}
		f.negatable = f.negatable || m[1] != ""
	} else if len(name) == 1 {
		f.short = name
	} else {
		f.long = name // a program with long options behind one dash (Go, Java)
		rest = m[3]
	}
	hint, text := splitValue(rest)
	if f.text == "" {
		f.text = text
	}
	switch {
	case hint == "", hint == ":":
		return
	case strings.HasPrefix(hint, "[") && !strings.HasPrefix(hint, "[=") && text != "":
		// Curl: the brackets are of the value, which must be there.
	case strings.HasPrefix(hint, "["):
		f.value, f.joined = optionalValue, true
		return
	case strings.HasPrefix(hint, "="):
		f.joined = true
		hint = strings.TrimPrefix(hint, "=")
	}
	f.value = valueOf(hint)
}

// splitValue parts the value of an option from a description that follows it
// after one space. A word in lower case before other words is no value.
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

// valueOf tells from a placeholder, or from kubectl's default value, what an
// option takes.
func valueOf(hint string) valueKind {
	word := strings.ToLower(strings.Trim(strings.TrimSuffix(hint, ":"), "<>[]{}'\"."))
	switch word {
	case "false", "true":
		return noValue
	case "n", "num", "number", "int", "integer", "uint", "uint16", "int32", "count", "seconds", "lines", "0", "1", "bytes", "float", "port", "depth":
		return numberValue
	default:
		return textValue
	}
}
