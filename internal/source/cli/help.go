package cli

import (
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/toolroom/toolroom/internal/pattern"
)

// help holds the facts from a program's help text.
type help struct {
	about    string // the first line that is not a usage line
	flags    []flag
	commands []subcommand
	// nests is whether each command has a help of its own, as the text says.
	nests bool
}

type subcommand struct{ name, text string }

func (h *help) text(command string) string {
	for _, c := range h.commands {
		if c.name == command {
			return c.text
		}
	}
	return ""
}

// add adds flags that the help does not have.
func (h *help) add(flags []flag) {
	for _, f := range flags {
		known := slices.ContainsFunc(h.flags, func(g flag) bool {
			return f.long != "" && f.long == g.long || f.short != "" && f.short == g.short
		})
		if !known && len(h.flags) < maxFlags {
			h.flags = append(h.flags, f)
		}
	}
}

// Limits for a help text. No honest program needs more.
const (
	maxFlags    = 500
	maxCommands = 500
	maxHelpLine = 1000
	maxAbout    = 400 // bytes of the text of a flag or command
)

var (
	// A line of a list of commands: indentation, a word, and a description after two
	// spaces or a colon.
	commandLine = pattern.Lazy(`^(?: {1,8}|\t)([a-z][a-z0-9_-]*)\*?(?::\s+|\s{2,}|\t)(\S.*)$`)
	// A line of a list of commands without descriptions, as npm has it.
	commandRow = pattern.Lazy(`^\s+[a-z][a-z0-9_-]*(?:, [a-z][a-z0-9_-]*)+,?$`)
	// A usage that takes a command.
	takesCommand = pattern.Lazy(`(?i)<(?:sub)?command>|\[(?:sub)?command\]|\bcommand\b`)
	// A heading of a list of commands.
	commandHeading = pattern.Lazy(`(?i)^(?:\S.*)?\bcommands?\b.*$`)
	otherHeading   = pattern.Lazy(`^(?:[A-Z][A-Z ]+|\S.*:)$`)
	// What says that each command answers --help.
	nestedHelp = pattern.Lazy(`(?i)(?:\[command\]|<command>|\bcommand) (?:--help|-h)\b`)
	// An option in the synopsis of npm, whose list does not say what takes a value.
	synopsis = pattern.Lazy(`\[(?:-\w\|)?--([a-z][a-z-]*)(?:\|[^\]\s]*)? <`)
	gap      = pattern.Lazy(`\s{2,}|\t`)
)

// parseHelp reads the help of programs in the styles of GNU, git, curl, cobra
// (docker, gh), kubectl, npm, argparse and Go. It skips lines that it does not understand
// and never fails.
func parseHelp(text string) *help {
	p := helpParser{h: &help{nests: nestedHelp().MatchString(text)}, seen: map[string]bool{}, values: map[string]bool{}}
	for line := range strings.SplitSeq(text, "\n") {
		line = strings.TrimRight(line, " \r")
		if len(line) <= maxHelpLine {
			p.line(line)
		}
	}
	for i := range p.h.flags {
		f := &p.h.flags[i]
		if f.value == noValue && p.values[f.long] {
			f.value = textValue
		}
		f.text = strings.Join(strings.Fields(f.text), " ")
		f.defaultsTrue = f.defaultsTrue || f.value == noValue && strings.HasSuffix(f.text, "(default true)")
	}
	return p.h
}

type helpParser struct {
	h       *help
	listing bool // commands may be listed here
	usage   bool // there was a usage line
	seen    map[string]bool
	values  map[string]bool // long options that take a value, by a synopsis

	// What a wrapped line continues: the text of the last flag or command, the column in
	// which its name begins, and that in which the text begins, if it is known.
	last         last
	column, from int
}

type last int

const (
	nothing last = iota
	lastFlag
	lastCommand
)

// text is the text that a wrapped line continues, or nil.
func (p *helpParser) text() *string {
	switch p.last {
	case lastFlag:
		return &p.h.flags[len(p.h.flags)-1].text
	case lastCommand:
		return &p.h.commands[len(p.h.commands)-1].text
	default:
		return nil
	}
}

func (p *helpParser) line(line string) {
	trimmed := strings.TrimSpace(line)
	column := indent(line)
	lower := strings.ToLower(trimmed)
	switch {
	case trimmed == "":
		if text := p.text(); text != nil && *text != "" {
			p.last = nothing
		}
		return
	case p.continues(column, trimmed):
		if text := p.text(); len(*text) < maxAbout {
			*text = strings.TrimSpace(*text + " " + trimmed)
		}
		return
	}
	p.last = nothing
	for _, m := range synopsis().FindAllStringSubmatch(line, -1) {
		p.values[m[1]] = true
	}
	switch {
	case strings.HasPrefix(lower, "usage:"), strings.HasPrefix(lower, "or:"):
		p.usage = true
		p.listing = p.listing || takesCommand().MatchString(line)
	case strings.HasPrefix(trimmed, "-"):
		p.flag(line, trimmed, column)
	case commandHeading().MatchString(line):
		p.listing = true
	case column == 0 && otherHeading().MatchString(line):
		p.listing = false
	case len(p.h.flags) == 0 && p.usage && len(p.h.commands) == 0 && column > 0 && takesCommand().MatchString(line):
		p.listing = true // a usage over several lines
	case p.listing && commandRow().MatchString(line):
		for name := range strings.SplitSeq(strings.TrimSuffix(trimmed, ","), ", ") {
			p.command(name, "")
		}
	default:
		m := commandLine().FindStringSubmatch(line)
		switch {
		case p.listing && m != nil:
			if p.command(m[1], m[2]) {
				p.last, p.column, p.from = lastCommand, column, strings.LastIndex(line, m[2])
			}
		case p.h.about == "" && column == 0:
			p.h.about = trimmed
		}
	}
}

// continues reports whether a line continues the text of the one before.
func (p *helpParser) continues(column int, trimmed string) bool {
	text := p.text()
	switch {
	case text == nil || column <= p.column:
		return false
	case strings.HasPrefix(trimmed, "-") && (*text == "" || p.from == 0):
		return false
	case p.from > 0:
		return column >= p.from-2 // else it is the name of another
	default:
		return true
	}
}

func (p *helpParser) command(name, text string) bool {
	if len(p.h.commands) == maxCommands || p.seen["command "+name] {
		return false
	}
	p.seen["command "+name] = true
	p.h.commands = append(p.h.commands, subcommand{name, text})
	return true
}

func (p *helpParser) flag(line, trimmed string, column int) {
	f, ok := parseFlag(trimmed)
	if !ok || len(p.h.flags) == maxFlags || p.seen[f.key()] {
		return
	}
	p.seen[f.key()] = true
	p.h.flags = append(p.h.flags, f)
	p.last, p.column, p.from = lastFlag, column, 0
	if f.text != "" {
		p.from = max(strings.LastIndex(line, f.text), 0)
	}
}

// indent is the column in which a line begins.
func indent(line string) int {
	column := 0
	for _, c := range line {
		switch c {
		case ' ':
			column++
		case '\t':
			column += 8 - column%8
		default:
			return column
		}
	}
	return column
}

// short cuts a text to at most n bytes, behind a sentence or a word.
func short(text string, n int) string {
	if len(text) <= n {
		return text
	}
	if at := strings.LastIndex(text[:n], ". "); at > n/3 {
		return text[:at+1]
	}
	text = text[:n-len("…")]
	if at := strings.LastIndexByte(text, ' '); at > 0 {
		text = text[:at]
	}
	for !utf8.ValidString(text) {
		text = text[:len(text)-1]
	}
	return text + "…"
}
