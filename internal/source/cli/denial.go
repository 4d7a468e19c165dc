package cli

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/toolroom/toolroom"
)

// callFlag is a flag in the arguments of a call.
type callFlag struct {
	flag
	known bool // the help names it
	value string
	words []string // its words on the command line
}

// checkDenied returns an error if a call has a flag or command that the sheet or the config
// denies. Path is the sub-command of the tool, empty for the program; words are the
// positional arguments.
//
// It fails closed. An unknown long flag is denied if it is a prefix of a denied one, because
// programs accept abbreviated flags. An unknown letter is denied if its value could be
// further letters.
func (s *Source) checkDenied(path []string, flags []callFlag, words []string) error {
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
		if inText && s.sheet.FlagsAfterDashes {
			name, value, _ := strings.Cut(strings.TrimLeft(word, "-"), "=")
			flags = append(flags, callFlag{flag: unlistedFlag(name), value: value})
		}
	}
	if s.sheet.BundledFlags && len(flags) == 0 && len(words) > 0 {
		return s.deniedError(words[0], "it would be read as a bundle of flags", "").
			WithHint(`give the flags by name, for example {"extract": true, "file": "a.tar"}`)
	}
	all := slices.Concat(s.sheet.Denials, parseDenials(s.o.Deny))
	for i, r := range all {
		ours := i >= len(s.sheet.Denials)
		for _, refused := range r.Commands {
			if hasPrefix(command, strings.Fields(refused)) && (ours || !s.allows(refused)) {
				return s.deniedError(refused, r.Why, refused)
			}
		}
		if !r.appliesTo(len(path) == 0, command) {
			continue
		}
		for _, f := range flags {
			if !strings.Contains(f.value, r.Value) {
				continue
			}
			named := slices.DeleteFunc(slices.Clone(r.Flags), func(refused string) bool { return !f.mayBe(refused) })
			allowed := !ours && slices.ContainsFunc(named, func(refused string) bool { return s.allows(refused, command...) })
			if len(named) > 0 && !allowed {
				return s.deniedError(named[0], r.Why, named[0])
			}
		}
	}
	return nil
}

func (s *Source) deniedError(what, why, allow string) *toolroom.Error {
	e := toolroom.Errorf(toolroom.CodeDenied, "%s is refused for %s: %s", what, filepath.Base(s.o.Command), why)
	switch {
	case allow == "":
		return e
	case why == deniedByConfig:
		return e.WithHint("the operator's config refuses it: sources.%s.cli.deny", s.o.Namespace)
	default:
		return e.WithHint("an operator may allow it in toolroom.yaml: sources.%s.cli.allow: [%q]", s.o.Namespace, allow)
	}
}

// deniedByConfig is the reason for denials in the config.
const deniedByConfig = "the config denies it"

// parseDenials parses entries of the config: FLAG, COMMAND, or COMMAND FLAG.
func parseDenials(entries []string) []denial {
	var all []denial
	for _, entry := range entries {
		words := strings.Fields(entry)
		if len(words) == 0 {
			continue
		}
		last := words[len(words)-1]
		switch {
		case !strings.HasPrefix(last, "-"):
			all = append(all, denial{Commands: []string{entry}, Why: deniedByConfig})
		case len(words) == 1:
			all = append(all, denial{Flags: words, Why: deniedByConfig})
		default:
			all = append(all, denial{Flags: []string{last}, In: []string{strings.Join(words[:len(words)-1], " ")}, Why: deniedByConfig})
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
		return len(words) > 0 && words[len(words)-1] == refused && hasPrefix(command, words[:len(words)-1])
	})
}

// allowedBy reports whether entries of the config allow something that r denies.
func (r denial) allowedBy(allowed []string) bool {
	return slices.ContainsFunc(allowed, func(entry string) bool {
		words := strings.Fields(entry)
		return len(words) > 0 && (slices.Contains(r.Flags, words[len(words)-1]) || slices.Contains(r.Commands, strings.Join(words, " ")))
	})
}

// concernsCommand reports whether r denies a command, one of its sub-commands or flags of it.
func (r denial) concernsCommand(name string) bool {
	return len(r.In) == 0 && len(r.Commands) == 0 || slices.Contains(r.In, name) ||
		slices.ContainsFunc(r.Commands, func(c string) bool { return hasPrefix(strings.Fields(c), strings.Fields(name)) })
}

// appliesTo reports whether r denies flags of a call: those of the program itself, which
// precede a command, or those of a command.
func (r denial) appliesTo(isProgram bool, command []string) bool {
	if len(r.Flags) == 0 {
		return false
	}
	return len(r.In) == 0 || slices.ContainsFunc(r.In, func(in string) bool {
		if in == "" {
			return isProgram
		}
		return hasPrefix(command, strings.Fields(in))
	})
}

func hasPrefix(words, with []string) bool {
	return len(words) >= len(with) && slices.Equal(words[:len(with)], with)
}

// mayBe reports whether a flag is, or could be, the denied one, such as --exec, -x or -exec.
func (g callFlag) mayBe(refused string) bool {
	name := strings.TrimLeft(refused, "-")
	if len(name) > 1 {
		return g.long == name || !g.known && g.long != "" && strings.HasPrefix(name, g.long)
	}
	if g.short == name {
		return true
	}
	// -vx may be -v -x.
	return !g.known && g.long == "" && g.value != "" && strings.Contains(g.value, name)
}
