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

// Subcommand converts a call of a sub-command that the help does not name to a call of the
// program's own tool: git:rev-parse becomes git:git with rev-parse as the first positional
// argument. It returns false if name cannot be a sub-command.
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

// argv returns the arguments of the program in a call: the sub-command, its flags, and its
// positional arguments.
func (s *Source) argv(name string, h *help, a arguments) []string {
	argv := slices.Clone(s.o.Args)
	if s.sheet.WordsFirst {
		return slices.Concat(argv, a.positional, a.flagWords(s.sheet.LastFlags))
	}
	if name != "" {
		return append(append(argv, strings.Split(name, ".")...), a.commandWords()...)
	}
	if len(h.commands) > 0 && a.mayStartWithCommand() {
		return append(argv, a.wordsAfterCommand()...)
	}
	return append(argv, a.commandWords()...)
}

// commandWords returns the flags and then the positional arguments.
func (a arguments) commandWords() []string { return slices.Concat(a.known, a.others, a.positional) }

// mayStartWithCommand reports whether the first positional argument may be a sub-command.
func (a arguments) mayStartWithCommand() bool {
	return len(a.positional) > 0 && commandName().MatchString(a.positional[0])
}

// wordsAfterCommand is like commandWords for arguments whose first word is a sub-command: flags
// that the program's help does not name follow that word.
func (a arguments) wordsAfterCommand() []string {
	return slices.Concat(a.known, a.positional[:1], a.others, a.positional[1:])
}

// flagWords returns the words of all flags, those in last at the end.
func (a arguments) flagWords(last []string) []string {
	flags := slices.Clone(a.flags)
	slices.SortStableFunc(flags, func(x, y callFlag) int {
		return cmp.Compare(slices.Index(last, x.long), slices.Index(last, y.long))
	})
	var words []string
	for _, f := range flags {
		words = append(words, f.words...)
	}
	return words
}
