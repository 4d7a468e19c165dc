package cli

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/toolroom/toolroom"
)

// given is a flag of a call.
type given struct {
	flag
	known bool   // the help names it
	text  string // its value
	words []string
}

// refuse returns an error if a call has a flag or command that the sheet or the config
// refuses. Path is the sub-command of the tool, empty for the program; words are the
// other arguments.
//
// It fails closed: an unknown long flag is refused if it is the beginning of a refused
// one, as programs complete flags, and an unknown letter if its value could be more
// letters.
func (s *Source) refuse(path []string, flags []given, words []string) error {
	command := slices.Clone(path)
	inText := false
	for _, word := range words {
		if word == "--" {
			inText = true
			continue
		}
		if !strings.HasPrefix(word, "-") {
			command = append(command, word)
			continue
		}
		if inText && s.sheet.NoEnd {
			name, value, _ := strings.Cut(strings.TrimLeft(word, "-"), "=")
			flags = append(flags, given{flag: flagOf(name), text: value})
		}
	}
	if s.sheet.Bundled && len(flags) == 0 && len(words) > 0 {
		return s.refused(words[0], "it would be read as a bundle of flags", "").
			WithHint(`give the flags by name, for example {"extract": true, "file": "a.tar"}`)
	}
	all := slices.Concat(s.sheet.Refused, denied(s.o.Deny))
	for i, r := range all {
		ours := i >= len(s.sheet.Refused)
		for _, refused := range r.Commands {
			if begins(command, strings.Fields(refused)) && (ours || !s.allows(refused)) {
				return s.refused(refused, r.Why, refused)
			}
		}
		if !r.applies(len(path) == 0, command) {
			continue
		}
		for _, f := range flags {
			if !strings.Contains(f.text, r.Value) {
				continue
			}
			named := slices.DeleteFunc(slices.Clone(r.Flags), func(refused string) bool { return !f.isOne(refused) })
			allowed := !ours && slices.ContainsFunc(named, func(refused string) bool { return s.allows(refused, command...) })
			if len(named) > 0 && !allowed {
				return s.refused(named[0], r.Why, named[0])
			}
		}
	}
	return nil
}

func (s *Source) refused(what, why, allow string) *toolroom.Error {
	e := toolroom.Errorf(toolroom.CodeDenied, "%s is refused for %s: %s", what, filepath.Base(s.o.Command), why)
	switch {
	case allow == "":
		return e
	case why == byConfig:
		return e.WithHint("the operator's config refuses it: sources.%s.cli.deny", s.o.Namespace)
	default:
		return e.WithHint("an operator may allow it in toolroom.yaml: sources.%s.cli.allow: [%q]", s.o.Namespace, allow)
	}
}

// byConfig is why a flag of the config is refused.
const byConfig = "the config denies it"

// denied reads the entries of the config: FLAG, COMMAND, or COMMAND FLAG.
func denied(entries []string) []refusal {
	var all []refusal
	for _, entry := range entries {
		words := strings.Fields(entry)
		if len(words) == 0 {
			continue
		}
		last := words[len(words)-1]
		switch {
		case !strings.HasPrefix(last, "-"):
			all = append(all, refusal{Commands: []string{entry}, Why: byConfig})
		case len(words) == 1:
			all = append(all, refusal{Flags: words, Why: byConfig})
		default:
			all = append(all, refusal{Flags: []string{last}, In: []string{strings.Join(words[:len(words)-1], " ")}, Why: byConfig})
		}
	}
	return all
}

// allows reports whether the config allows a flag of a command, or a command.
func (s *Source) allows(refused string, command ...string) bool {
	return slices.ContainsFunc(s.o.Allow, func(entry string) bool {
		words := strings.Fields(entry)
		if !strings.HasPrefix(refused, "-") {
			return strings.Join(words, " ") == refused
		}
		return len(words) > 0 && words[len(words)-1] == refused && begins(command, words[:len(words)-1])
	})
}

// opened reports whether the config allows something that r refuses.
func (r refusal) opened(allowed []string) bool {
	return slices.ContainsFunc(allowed, func(entry string) bool {
		words := strings.Fields(entry)
		return len(words) > 0 && (slices.Contains(r.Flags, words[len(words)-1]) || slices.Contains(r.Commands, strings.Join(words, " ")))
	})
}

// concerns reports whether r refuses something of a command, by name.
func (r refusal) concerns(name string) bool {
	return len(r.In) == 0 && len(r.Commands) == 0 || slices.Contains(r.In, name) ||
		slices.ContainsFunc(r.Commands, func(c string) bool { return begins(strings.Fields(c), strings.Fields(name)) })
}

// applies reports whether the flags of r are those of a call: of the program itself, whose
// flags precede a command, or of a command.
func (r refusal) applies(isProgram bool, command []string) bool {
	if len(r.Flags) == 0 {
		return false
	}
	return len(r.In) == 0 || slices.ContainsFunc(r.In, func(in string) bool {
		if in == "" {
			return isProgram
		}
		return begins(command, strings.Fields(in))
	})
}

func begins(words, with []string) bool {
	return len(words) >= len(with) && slices.Equal(words[:len(with)], with)
}

// isOne reports whether a flag is the refused one, such as --exec, -x or -exec, or could
// be.
func (g given) isOne(refused string) bool {
	name := strings.TrimLeft(refused, "-")
	if len(name) > 1 {
		return g.long == name || !g.known && g.long != "" && strings.HasPrefix(name, g.long)
	}
	if g.short == name {
		return true
	}
	// -vx may be -v -x.
	return !g.known && g.long == "" && g.text != "" && strings.Contains(g.text, name)
}
