package cli

import (
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/toolroom/toolroom/internal/pattern"
)

// help holds what a help text says about a program or a sub-command.
type help struct {
	about    string // the first line that is not a usage line
	flags    []flag
	commands []subcommand
	// commandsHaveHelp reports whether the text says that each command answers --help.
	commandsHaveHelp bool
}

type subcommand struct{ name, text string }

// commandText returns the description of a command, or "".
func (h *help) commandText(command string) string {
	for _, c := range h.commands {
		if c.name == command {
			return c.text
		}
	}
	return ""
}

// addFlags adds the flags that h does not have yet.
func (h *help) addFlags(flags []flag) {
	for _, f := range flags {
		known := slices.ContainsFunc(h.flags, func(g flag) bool {
			return f.long != "" && f.long == g.long || f.short != "" && f.short == g.short
		})
		if !known && len(h.flags) < maxFlags {
			h.flags = append(h.flags, f)
		}
	}
}

// Limits for a help text.
const (
	maxFlags    = 500
	maxCommands = 500
	maxHelpLine = 1000
	maxAbout    = 400 // bytes of the text of a flag or command
)

var (
	// commandLine matches a line in a list of commands: indentation, a word, and a description
	// after two spaces or a colon.
	commandLine = pattern.Lazy(`^(?: {1,8}|\t)([a-z][a-z0-9_-]*)\*?(?::\s+|\s{2,}|\t)(\S.*)$`)
	// commandRow matches a line of npm's list of commands, which has no descriptions.
	commandRow = pattern.Lazy(`^\s+[a-z][a-z0-9_-]*(?:, [a-z][a-z0-9_-]*)+,?$`)
	// takesCommand matches a usage line with a command.
	takesCommand = pattern.Lazy(`(?i)<(?:sub)?command>|\[(?:sub)?command\]|\bcommand\b`)
	// commandHeading matches the heading of a list of commands, and otherHeading that of
	// another part.
	commandHeading = pattern.Lazy(`(?i)^(?:\S.*)?\bcommands?\b.*$`)
	otherHeading   = pattern.Lazy(`^(?:[A-Z][A-Z ]+|\S.*:)$`)
	// nestedHelp matches a note that each command answers --help.
	nestedHelp = pattern.Lazy(`(?i)(?:\[command\]|<command>|\bcommand) (?:--help|-h)\b`)
	// synopsis matches an option with a value in the synopsis of npm, whose list of options
	// does not show values.
	synopsis = pattern.Lazy(`\[(?:-\w\|)?--([a-z][a-z-]*)(?:\|[^\]\s]*)? <`)
	// gap matches the space between an option and its description.
	gap = pattern.Lazy(`\s{2,}|\t`)
)

// parseHelp reads the help of programs in the styles of GNU, git, curl, cobra
// (docker, gh), kubectl, npm, argparse and Go. It skips lines that it does not understand
// and never fails.
func parseHelp(text string) *help {
	p := helpParser{h: &help{commandsHaveHelp: nestedHelp().MatchString(text)}, seen: map[string]bool{}, takesValue: map[string]bool{}}
	for line := range strings.SplitSeq(text, "\n") {
		line = strings.TrimRight(line, " \r")
		if len(line) <= maxHelpLine {
			p.readLine(line)
		}
	}
	for i := range p.h.flags {
		f := &p.h.flags[i]
		if f.value == noValue && p.takesValue[f.long] {
			f.value = textValue
		}
		f.text = strings.Join(strings.Fields(f.text), " ")
		f.defaultsTrue = f.defaultsTrue || f.value == noValue && strings.HasSuffix(f.text, "(default true)")
	}
	return p.h
}

type helpParser struct {
	h             *help
	inCommandList bool // commands may be listed here
	sawUsage      bool // there was a usage line
	seen          map[string]bool
	takesValue    map[string]bool // long options with a value in a synopsis

	// last is the kind of the last item, whose description a wrapped line continues. The
	// name of the item begins in nameColumn, and its description in textColumn, which is
	// zero if unknown.
	last                   itemKind
	nameColumn, textColumn int
}

// itemKind is the kind of an item with a description.
type itemKind int

const (
	noItem itemKind = iota
	flagItem
	commandItem
)

// lastText returns the description of the last item, or nil if there is none.
func (p *helpParser) lastText() *string {
	switch p.last {
	case flagItem:
		return &p.h.flags[len(p.h.flags)-1].text
	case commandItem:
		return &p.h.commands[len(p.h.commands)-1].text
	default:
		return nil
	}
}

func (p *helpParser) readLine(line string) {
	trimmed := strings.TrimSpace(line)
	column := indentOf(line)
	lower := strings.ToLower(trimmed)
	switch {
	case trimmed == "":
		if text := p.lastText(); text != nil && *text != "" {
			p.last = noItem
		}
		return
	case p.isContinuation(column, trimmed):
		if text := p.lastText(); len(*text) < maxAbout {
			*text = strings.TrimSpace(*text + " " + trimmed)
		}
		return
	}
	p.last = noItem
	for _, m := range synopsis().FindAllStringSubmatch(line, -1) {
		p.takesValue[m[1]] = true
	}
	switch {
	case strings.HasPrefix(lower, "usage:"), strings.HasPrefix(lower, "or:"):
		p.sawUsage = true
		p.inCommandList = p.inCommandList || takesCommand().MatchString(line)
	case strings.HasPrefix(trimmed, "-"):
		p.addFlag(line, trimmed, column)
	case commandHeading().MatchString(line):
		p.inCommandList = true
	case column == 0 && otherHeading().MatchString(line):
		p.inCommandList = false
	case len(p.h.flags) == 0 && p.sawUsage && len(p.h.commands) == 0 && column > 0 && takesCommand().MatchString(line):
		p.inCommandList = true // a usage over several lines
	case p.inCommandList && commandRow().MatchString(line):
		for name := range strings.SplitSeq(strings.TrimSuffix(trimmed, ","), ", ") {
			p.addCommand(name, "")
		}
	default:
		m := commandLine().FindStringSubmatch(line)
		switch {
		case p.inCommandList && m != nil:
			if p.addCommand(m[1], m[2]) {
				p.last, p.nameColumn, p.textColumn = commandItem, column, strings.LastIndex(line, m[2])
			}
		case p.h.about == "" && column == 0:
			p.h.about = trimmed
		}
	}
}

// isContinuation reports whether a line continues the description of the last item.
func (p *helpParser) isContinuation(column int, trimmed string) bool {
	text := p.lastText()
	switch {
	case text == nil || column <= p.nameColumn:
		return false
	case strings.HasPrefix(trimmed, "-") && (*text == "" || p.textColumn == 0):
		return false
	case p.textColumn > 0:
		return column >= p.textColumn-2 // otherwise it is the name of another item
	default:
		return true
	}
}

func (p *helpParser) addCommand(name, text string) bool {
	if len(p.h.commands) == maxCommands || p.seen["command "+name] {
		return false
	}
	p.seen["command "+name] = true
	p.h.commands = append(p.h.commands, subcommand{name, text})
	return true
}

func (p *helpParser) addFlag(line, trimmed string, column int) {
	f, ok := parseFlag(trimmed)
	if !ok || len(p.h.flags) == maxFlags || p.seen[f.key()] {
		return
	}
	p.seen[f.key()] = true
	p.h.flags = append(p.h.flags, f)
	p.last, p.nameColumn, p.textColumn = flagItem, column, 0
	if f.text != "" {
		p.textColumn = max(strings.LastIndex(line, f.text), 0)
	}
}

// indentOf returns the column in which a line begins.
func indentOf(line string) int {
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

// shorten cuts a text to at most n bytes, after a sentence or a word.
func shorten(text string, n int) string {
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
