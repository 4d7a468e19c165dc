package config

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/gofrs/flock"
	"go.yaml.in/yaml/v4"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/atomicfile"
	"github.com/toolroom/toolroom/internal/reserved"
)

//go:embed starter.yaml
var starter []byte

// EditHook is called after an edit with the text of the config before and after it. before is
// nil if the file did not exist.
type EditHook func(before, after []byte) error

// Init writes a commented starter config, and makes its folder. If the file exists, it is
// replaced only with force; else the error has code conflict.
func Init(path string, force bool, wrote ...EditHook) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	if force {
		if err := atomicfile.Write(path, starter, 0o644); err != nil {
			return err
		}
		return callHooks(wrote, nil, starter)
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if errors.Is(err, fs.ErrExist) {
		return toolroom.Errorf(toolroom.CodeConflict, "%s already exists", path).WithCLIHint("replace it: toolroom init --force")
	}
	if err != nil {
		return err
	}
	_, err = f.Write(starter)
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	return callHooks(wrote, nil, starter)
}

func callHooks(wrote []EditHook, before, after []byte) error {
	for _, do := range wrote {
		if err := do(before, after); err != nil {
			return err
		}
	}
	return nil
}

// AddSource adds a source to the config at path and leaves the rest of the text unchanged.
// It creates a missing file. An existing source of that name is replaced only with force;
// else the error has code conflict. It writes only a valid config. Just before it writes, it
// calls ready, unless that is nil, and gives up if that fails.
func AddSource(path, name string, s Source, force bool, ready func() error, wrote ...EditHook) error {
	if err := reserved.Check(name); err != nil {
		return err
	}
	return editSources(path, func(e *editor, sources map[string]Source) error {
		if _, ok := sources[name]; ok {
			if !force {
				return toolroom.Errorf(toolroom.CodeConflict, "source %s already exists in %s", name, path).
					WithCLIHint("replace it: toolroom sources add --force %s …", name)
			}
			e.remove(name)
		}
		sources[name] = s
		return e.add(name, s)
	}, ready, wrote)
}

// ChangeSource replaces a source by what change returns, and leaves the rest of the text
// unchanged; comments within the source are lost. If there is no such source, the error has
// code not_found. It calls ready as [AddSource] does.
func ChangeSource(path, name string, change func(Source) (Source, error), ready func() error, wrote ...EditHook) error {
	return editSources(path, func(e *editor, sources map[string]Source) error {
		s, ok := sources[name]
		if !ok {
			return toolroom.Errorf(toolroom.CodeNotFound, "source %s not found in %s", name, path).
				WithCLIHint("list the sources: toolroom sources list")
		}
		s, err := change(s)
		if err != nil {
			return err
		}
		e.remove(name)
		sources[name] = s
		return e.add(name, s)
	}, ready, wrote)
}

// SourceText returns a source as a config has it, and ParseSource reads that.
func SourceText(s Source) (string, error) {
	text, err := yaml.Dump(s, yaml.WithIndent(2))
	return string(text), err
}

// ParseSource reads the text of one source, and checks it under its name.
func ParseSource(name string, text []byte) (Source, error) {
	indented := "sources:\n  " + name + ":\n"
	for line := range strings.Lines(string(text)) {
		indented += "    " + line
	}
	c, err := Parse(name, []byte(indented))
	if mistakes := (*Errors)(nil); errors.As(err, &mistakes) {
		for i := range mistakes.Problems { // positions in text
			p := &mistakes.Problems[i]
			p.Line, p.Column = max(p.Line-2, 1), max(p.Column-4, 1)
		}
	}
	if err != nil {
		return Source{}, err
	}
	s, ok := c.Source(name)
	if !ok {
		return Source{}, toolroom.Errorf(toolroom.CodeInvalidArguments, "the source is empty")
	}
	return s, nil
}

// CheckSource returns the first mistake in a source, or nil.
func CheckSource(name string, s Source) error {
	text, err := SourceText(s)
	if err == nil {
		_, err = ParseSource(name, []byte(text))
	}
	if mistakes, ok := errors.AsType[*Errors](err); ok {
		first := mistakes.Problems[0]
		return fmt.Errorf("%s: %s", strings.TrimPrefix(first.Key, "sources."+name+"."), first.Reason)
	}
	return err
}

// RemoveSource removes a source from the config at path and leaves the rest of the text,
// including comments, unchanged. If there is no such source, the error has code not_found.
func RemoveSource(path, name string, wrote ...EditHook) error {
	return editSources(path, func(e *editor, sources map[string]Source) error {
		if _, ok := sources[name]; !ok {
			return toolroom.Errorf(toolroom.CodeNotFound, "source %s not found in %s", name, path).
				WithCLIHint("list the sources: toolroom sources list")
		}
		delete(sources, name)
		e.remove(name)
		return nil
	}, nil, wrote)
}

// editLock returns the lock of edits of a file: that of its folder, which leaves no file
// behind. Windows locks no folders.
func editLock(file string) *flock.Flock {
	if runtime.GOOS == "windows" {
		return flock.New(filepath.Join(filepath.Dir(file), "."+filepath.Base(file)+".lock"), flock.SetPermissions(0o600))
	}
	return flock.New(filepath.Dir(file), flock.SetFlag(os.O_RDONLY))
}

// editSources applies change, which makes the same change to the text and to the sources.
func editSources(path string, change func(*editor, map[string]Source) error, ready func() error, wrote []EditHook) error {
	return edit(path, func(data []byte, want *Config) ([]byte, error) {
		want.Sources = maps.Clone(want.Sources)
		if want.Sources == nil {
			want.Sources = map[string]Source{}
		}
		e := newEditor(data)
		if key, _ := e.sources(); key == nil {
			return nil, unsafe(path)
		}
		err := change(e, want.Sources)
		return e.text(), err
	}, ready, wrote)
}

// edit applies change, which returns the new text and changes want in the same way. The text
// is written only if it parses to exactly want.
func edit(path string, change func(data []byte, want *Config) ([]byte, error), ready func() error, wrote []EditHook) (err error) {
	file := path
	if target, err := filepath.EvalSymlinks(path); err == nil {
		file = target
	}
	// Two edits at once would lose one of them.
	lock := editLock(file)
	if err := lock.Lock(); err != nil {
		return fmt.Errorf("lock %s: %w", path, err)
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	data, err := read(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	before, err := Parse(path, data)
	if err != nil {
		return err
	}
	want := *before
	text, err := change(data, &want)
	if err != nil {
		return err
	}
	after, err := Parse(path, text)
	if err != nil && !isInvalidYAML(err) {
		return withoutPositions(err) // what is new has mistakes, and is not written
	}
	if err != nil || !equalConfigs(&want, after) {
		return unsafe(path)
	}
	// A person's editor takes no lock.
	if now, err := read(path); !errors.Is(err, fs.ErrNotExist) && (err != nil || !bytes.Equal(now, data)) {
		return toolroom.Errorf(toolroom.CodeConflict, "%s was changed meanwhile", path).WithHint("run the command again")
	}
	if ready != nil {
		if err := ready(); err != nil {
			return err
		}
	}
	if err := atomicfile.Write(path, text, 0o644); err != nil {
		return err
	}
	return callHooks(wrote, data, text)
}

func unsafe(path string) error {
	return toolroom.Errorf(toolroom.CodeUnsupported, "cannot edit %s safely because of its form", path).
		WithHint("edit the section sources by hand")
}

// isInvalidYAML reports that the text is no longer YAML.
func isInvalidYAML(err error) bool {
	var mistakes *Errors
	return errors.As(err, &mistakes) && mistakes.Problems[0].Key == ""
}

// withoutPositions removes the positions from the mistakes of a text that is in no file.
func withoutPositions(err error) error {
	if mistakes := (*Errors)(nil); errors.As(err, &mistakes) {
		for i := range mistakes.Problems {
			p := &mistakes.Problems[i]
			p.File, p.Line, p.Column = "", 0, 0
		}
	}
	return err
}

func equalConfigs(a, b *Config) bool {
	textA, errA := yaml.Dump(a)
	textB, errB := yaml.Dump(b)
	return errA == nil && errB == nil && bytes.Equal(textA, textB)
}

// editor edits lines of a config. Writing the YAML tree would keep comments, but lose blank
// lines and alignment.
type editor struct{ lines []string }

// linesOf returns an editor of the lines of a text. It reports false if YAML counts them
// differently, because it has other line ends than \n.
func linesOf(data []byte) (*editor, bool) {
	if strings.ContainsAny(strings.ReplaceAll(string(data), "\r\n", ""), "\r\u0085\u2028\u2029") {
		return &editor{}, false
	}
	e := &editor{lines: slices.Collect(strings.Lines(string(data)))}
	if n := len(e.lines); n > 0 && !strings.HasSuffix(e.lines[n-1], "\n") {
		e.lines[n-1] += "\n"
	}
	return e, true
}

// newEditor converts the section sources to block form, with each source on its own lines,
// if necessary. If that is not possible, the editor finds no section.
func newEditor(data []byte) *editor {
	e, ok := linesOf(data)
	if !ok {
		return e
	}
	key, value := e.sources()
	switch {
	case key == nil && len(e.lines) == 0:
		e.lines = []string{"sources:\n"}
		return e
	case key == nil:
		e.lines = append(e.lines, "\n", "sources:\n")
		return e
	case isNull(value) && value.Value == "", value.Kind == yaml.MappingNode && value.Style&yaml.FlowStyle == 0:
		return e
	}
	value.Style &^= yaml.FlowStyle
	// The comment after the braces moves after the key; comments around it keep their
	// lines.
	key.LineComment, value.LineComment = value.LineComment, ""
	key.HeadComment, key.FootComment, value.FootComment = "", "", ""
	if len(value.Content) == 0 {
		value.Kind, value.Tag, value.Value = yaml.ScalarNode, "!!null", ""
	}
	text, err := yaml.Dump(&yaml.Node{Kind: yaml.MappingNode, Content: []*yaml.Node{key, value}}, yaml.WithIndent(2))
	if err != nil {
		return &editor{}
	}
	start, end := e.lineRange(key)
	e.replace(start, end, string(text), key.Column-1)
	return e
}

func (e *editor) text() []byte { return []byte(strings.Join(e.lines, "")) }

// sources finds the section; nil if there is none or the whole file is in braces.
func (e *editor) sources() (key, value *yaml.Node) {
	var document yaml.Node
	err := yaml.Load(e.text(), &document)
	if err != nil || len(document.Content) == 0 || document.Content[0].Style&yaml.FlowStyle != 0 {
		return nil, nil
	}
	return entry(document.Content[0], "sources")
}

func entry(mapping *yaml.Node, name string) (key, value *yaml.Node) {
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		if mapping.Content[i].Value == name {
			return mapping.Content[i], mapping.Content[i+1]
		}
	}
	return nil, nil
}

func (e *editor) add(name string, s Source) error {
	key, value := e.sources()
	text, err := yaml.Dump(map[string]Source{name: s}, yaml.WithIndent(2))
	if err != nil {
		return err
	}
	indent := key.Column - 1 + 2
	if len(value.Content) > 0 {
		indent = value.Content[0].Column - 1
	}
	_, end := e.lineRange(key)
	e.replace(end, end, string(text), indent)
	return nil
}

func (e *editor) remove(name string) {
	_, value := e.sources()
	key, _ := entry(value, name)
	if key == nil {
		return
	}
	start, end := e.lineRange(key)
	e.lines = slices.Delete(e.lines, start, end)
}

// lineRange returns the lines of a key and its value: the key's line and the following lines
// that are indented deeper. Blank lines and comments count if such a line follows.
func (e *editor) lineRange(key *yaml.Node) (start, end int) {
	start = key.Line - 1
	end = start + 1
	for at := end; at < len(e.lines); at++ {
		text := strings.TrimLeft(e.lines[at], " ")
		deeper := len(e.lines[at])-len(text) > key.Column-1
		switch {
		case strings.TrimSpace(text) == "" || !deeper && text[0] == '#':
		case deeper:
			end = at + 1
		default:
			return start, end
		}
	}
	return start, end
}

// replace replaces some lines with an indented text.
func (e *editor) replace(start, end int, text string, indent int) {
	var lines []string
	for line := range strings.Lines(text) {
		lines = append(lines, strings.Repeat(" ", indent)+line)
	}
	e.lines = slices.Replace(e.lines, start, end, lines...)
}
