package cli

import (
	"cmp"
	"embed"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"go.yaml.in/yaml/v4"

	"github.com/toolroom/toolroom"
)

// sheet holds facts about one program that its help does not tell: which commands only read,
// which are destructive, and which flags no model should set. Those of known programs are in
// the folder sheets.
type sheet struct {
	Summary string `yaml:"summary"`
	// Flags are further flags of every command, in the form of a help text.
	Flags string `yaml:"flags"`
	// Help are the arguments that make the program print its help; the default is --help.
	Help []string `yaml:"help"`
	// Manual means that the flags are in the manual page and not in the help.
	Manual bool `yaml:"manual"`
	// FirstFlags are the flags that come first in a schema.
	FirstFlags []string `yaml:"first"`
	// Lazy means that the help of a command is read only when it is needed, because the
	// program is slow.
	Lazy bool `yaml:"lazy"`
	// WordsFirst means that flags follow the positional arguments. LastFlags come last of
	// all.
	WordsFirst bool     `yaml:"words_first"`
	LastFlags  []string `yaml:"last"`
	// BundledFlags means that the first word is a bundle of flags without a dash, as in tar.
	BundledFlags bool `yaml:"bundled"`
	// FlagsAfterDashes means that words after -- can still be flags.
	FlagsAfterDashes bool `yaml:"no_end"`
	// Commands are summaries of commands, also of commands that the help does not name.
	Commands map[string]string `yaml:"commands"`
	// ReadOnly, Destructive and NotDestructive list commands with these hints; commands in
	// NotDestructive do change something. The program itself is "".
	ReadOnly       []string `yaml:"read_only"`
	Destructive    []string `yaml:"destructive"`
	NotDestructive []string `yaml:"not_destructive"`
	Denials        []denial `yaml:"refused"`
}

// denial is a set of flags or commands that are denied unless the config allows them.
type denial struct {
	Flags []string `yaml:"flags"`
	// In lists the commands that have the flags; empty means all of them. "" is the
	// program itself, before a command.
	In []string `yaml:"in"`
	// Commands are denied with all their flags.
	Commands []string `yaml:"commands"`
	// Value, if set, restricts the denial of Flags to values that contain it.
	Value string `yaml:"value"`
	Why   string `yaml:"why"`
}

//go:embed sheets/*.yaml
var sheetFiles embed.FS

// sheets returns the sheets by program. It ignores invalid ones; a test checks that all are
// valid.
var sheets = sync.OnceValue(func() map[string]*sheet {
	all := map[string]*sheet{}
	entries, _ := sheetFiles.ReadDir("sheets")
	for _, entry := range entries {
		text, err := sheetFiles.ReadFile("sheets/" + entry.Name())
		s := &sheet{}
		if err == nil && yaml.Unmarshal(text, s) == nil {
			all[strings.TrimSuffix(entry.Name(), ".yaml")] = s
		}
	}
	return all
})

// sheetFor returns the sheet of a program, or an empty one.
func sheetFor(program string) *sheet {
	name := strings.TrimSuffix(strings.ToLower(filepath.Base(program)), ".exe")
	if s := sheets()[name]; s != nil {
		return s
	}
	return &sheet{}
}

// hints returns the hints of a command. It returns none if the config allows something of the
// command that the sheet denies, because the hints may not hold then.
func (s *sheet) hints(name string, allowed []string) toolroom.Hints {
	name = strings.ReplaceAll(name, ".", " ")
	yes, no := true, false
	switch {
	case slices.ContainsFunc(s.Denials, func(r denial) bool { return r.concernsCommand(name) && r.allowedBy(allowed) }):
		return toolroom.Hints{}
	case slices.Contains(s.ReadOnly, name):
		return toolroom.Hints{ReadOnly: &yes, Destructive: &no}
	case slices.Contains(s.Destructive, name):
		return toolroom.Hints{ReadOnly: &no, Destructive: &yes}
	case slices.Contains(s.NotDestructive, name):
		return toolroom.Hints{ReadOnly: &no, Destructive: &no}
	default:
		return toolroom.Hints{}
	}
}

// prepareFlags sorts sheet.FirstFlags before the other flags, because a schema has only the
// first ones, and marks those that are denied.
func (s *Source) prepareFlags(h *help, path []string) {
	for i := range h.flags {
		f := &h.flags[i]
		for _, r := range slices.Concat(s.sheet.Denials, parseDenials(s.o.Deny)) {
			if r.Value != "" || !r.appliesTo(len(path) == 0, path) {
				continue
			}
			named := slices.DeleteFunc(slices.Clone(r.Flags), func(refused string) bool { return !(callFlag{flag: *f, known: true}).mayBe(refused) })
			allowed := r.Why != deniedByConfig && slices.ContainsFunc(named, func(refused string) bool { return s.allows(refused, path...) })
			f.denied = f.denied || len(named) > 0 && !allowed
		}
	}
	rank := func(f flag) int {
		if at := slices.Index(s.sheet.FirstFlags, f.long); at >= 0 && f.long != "" {
			return at
		}
		return len(s.sheet.FirstFlags)
	}
	slices.SortStableFunc(h.flags, func(a, b flag) int { return cmp.Compare(rank(a), rank(b)) })
}
