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

// A sheet says of one program what its help does not: which commands only read, which may
// destroy something, and which flags no model should set.
type sheet struct {
	Summary string `yaml:"summary"`
	// Flags are further flags of every command, in the form of a help text.
	Flags string `yaml:"flags"`
	// Help is what asks the program for its help; --help if it is empty.
	Help []string `yaml:"help"`
	// Manual is whether the help is no list of flags, but the manual page is.
	Manual bool `yaml:"manual"`
	// First are the flags that a schema names before others.
	First []string `yaml:"first"`
	// Lazy is whether the help of a command is read only when somebody asks for it,
	// because the program is slow.
	Lazy bool `yaml:"lazy"`
	// WordsFirst is whether flags follow the other words, and Last the flags that come
	// last of all.
	WordsFirst bool     `yaml:"words_first"`
	Last       []string `yaml:"last"`
	// Bundled is whether the first word is a bundle of flags without a dash.
	Bundled bool `yaml:"bundled"`
	// NoEnd is whether words behind -- can still be flags.
	NoEnd bool `yaml:"no_end"`
	// Commands are summaries of commands, also of commands that the help does not name.
	Commands map[string]string `yaml:"commands"`
	// ReadOnly, Destructive and Harmless (neither of both) list commands. The program
	// itself is "".
	ReadOnly    []string  `yaml:"read_only"`
	Destructive []string  `yaml:"destructive"`
	Harmless    []string  `yaml:"not_destructive"`
	Refused     []refusal `yaml:"refused"`
}

// A refusal is a set of flags or commands that are refused unless the config allows them.
type refusal struct {
	Flags []string `yaml:"flags"`
	// In lists the commands that have the flags; empty means all of them. "" is the
	// program itself, before a command.
	In []string `yaml:"in"`
	// Commands are refused whole.
	Commands []string `yaml:"commands"`
	// Value refuses only values that contain it.
	Value string `yaml:"value"`
	Why   string `yaml:"why"`
}

//go:embed sheets/*.yaml
var sheetFiles embed.FS

// sheets are read once; a test reads all of them.
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

// sheetOf returns the sheet of a program, or an empty one.
func sheetOf(program string) *sheet {
	name := strings.TrimSuffix(strings.ToLower(filepath.Base(program)), ".exe")
	if s := sheets()[name]; s != nil {
		return s
	}
	return &sheet{}
}

// hints returns what the sheet says of a command. It claims nothing of a command of which
// the config allows a flag that is refused otherwise.
func (s *sheet) hints(name string, allowed []string) toolroom.Hints {
	name = strings.ReplaceAll(name, ".", " ")
	yes, no := true, false
	switch {
	case slices.ContainsFunc(s.Refused, func(r refusal) bool { return r.concerns(name) && r.opened(allowed) }):
		return toolroom.Hints{}
	case slices.Contains(s.ReadOnly, name):
		return toolroom.Hints{ReadOnly: &yes, Destructive: &no}
	case slices.Contains(s.Destructive, name):
		return toolroom.Hints{ReadOnly: &no, Destructive: &yes}
	case slices.Contains(s.Harmless, name):
		return toolroom.Hints{ReadOnly: &no, Destructive: &no}
	default:
		return toolroom.Hints{}
	}
}

// arrange puts the flags that matter before the others, as a schema has only the first
// ones, and marks those that are refused.
func (s *Source) arrange(h *help, path []string) {
	for i := range h.flags {
		f := &h.flags[i]
		for _, r := range slices.Concat(s.sheet.Refused, denied(s.o.Deny)) {
			if r.Value != "" || !r.applies(len(path) == 0, path) {
				continue
			}
			named := slices.DeleteFunc(slices.Clone(r.Flags), func(refused string) bool { return !(given{flag: *f, known: true}).isOne(refused) })
			allowed := r.Why != byConfig && slices.ContainsFunc(named, func(refused string) bool { return s.allows(refused, path...) })
			f.refused = f.refused || len(named) > 0 && !allowed
		}
	}
	rank := func(f flag) int {
		if at := slices.Index(s.sheet.First, f.long); at >= 0 && f.long != "" {
			return at
		}
		return len(s.sheet.First)
	}
	slices.SortStableFunc(h.flags, func(a, b flag) int { return cmp.Compare(rank(a), rank(b)) })
}
