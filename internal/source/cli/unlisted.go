package cli

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"

	"github.com/toolroom/toolroom/internal/jsonx"
	"github.com/toolroom/toolroom/internal/pattern"
)

// commandName matches the names that a sub-command can have.
var commandName = pattern.Lazy(`^[A-Za-z][A-Za-z0-9]*([_-][A-Za-z0-9]+)*$`)

// Subcommand runs a sub-command that the help does not name with the tool of the
// program itself: git rev-parse is git:git with rev-parse before the other words.
func (s *Source) Subcommand(name string, arguments json.RawMessage) (string, json.RawMessage, bool) {
	if !commandName().MatchString(name) {
		return "", nil, false
	}
	name = strings.ReplaceAll(name, "_", "-")
	args := map[string]any{}
	if len(arguments) > 0 {
		doc, err := jsonx.Decode(arguments, jsonx.Limits{})
		given, ok := doc.(map[string]any)
		if err != nil || !ok {
			return "", nil, false
		}
		args = given
	}
	words := []any{name}
	switch rest := args[positionals].(type) {
	case nil:
	case []any:
		words = append(words, rest...)
	default:
		words = append(words, rest)
	}
	args[positionals] = words
	changed, err := jsonx.Marshal(args)
	return s.programTool(), changed, err == nil
}

// argv returns the command line of a call: the sub-command, its flags, and its other
// words.
func (s *Source) argv(name string, h *help, a arguments) []string {
	argv := slices.Clone(s.o.Args)
	if s.sheet.WordsFirst {
		return slices.Concat(argv, a.words, a.inOrder(s.sheet.Last))
	}
	if name != "" {
		return append(append(argv, strings.Split(name, ".")...), a.line()...)
	}
	if len(h.commands) > 0 && a.leads() {
		return append(argv, a.lineAfterCommand()...)
	}
	return append(argv, a.line()...)
}

func (a arguments) line() []string { return slices.Concat(a.known, a.others, a.words) }

// leads reports whether the first word may be a sub-command.
func (a arguments) leads() bool { return len(a.words) > 0 && commandName().MatchString(a.words[0]) }

// lineAfterCommand returns the command line of a program that is called with a
// sub-command as its first word: flags that the program's help does not name follow
// that word.
func (a arguments) lineAfterCommand() []string {
	return slices.Concat(a.known, a.words[:1], a.others, a.words[1:])
}

// inOrder returns the flags, those of the list last.
func (a arguments) inOrder(last []string) []string {
	flags := slices.Clone(a.flags)
	slices.SortStableFunc(flags, func(x, y given) int {
		return cmp.Compare(slices.Index(last, x.long), slices.Index(last, y.long))
	})
	var words []string
	for _, f := range flags {
		words = append(words, f.words...)
	}
	return words
}
