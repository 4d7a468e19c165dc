package config

import (
	"bytes"
	_ "embed"
	"errors"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/atomicfile"
)

//go:embed starter.yaml
var starter []byte

// Init writes a config with comments to start from. It replaces a file that is
// there with force alone; else the error has code conflict.
func Init(path string, force bool) error {
	if force {
		return atomicfile.Write(path, starter, 0o644)
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if errors.Is(err, fs.ErrExist) {
		return toolroom.Errorf(toolroom.CodeConflict, "%s is there already", path).WithHint("replace it: toolroom init --force")
	}
	if err != nil {
		return err
	}
	_, err = f.Write(starter)
	return errors.Join(err, f.Close())
}

// AddSource writes a source into the config at path and leaves the rest of the
// text as it is. A missing file is made. A source of that name is replaced with
// force alone; else the error has code conflict. Nothing is written that would
// not be valid.
func AddSource(path, name string, s Source, force bool) error {
	return edit(path, func(e *editor, sources map[string]Source) error {
		if _, ok := sources[name]; ok {
			if !force {
				return toolroom.Errorf(toolroom.CodeConflict, "the source %s is in %s already", name, path).
					WithHint("replace it: toolroom sources add --force %s …", name)
			}
			e.remove(name)
		}
		sources[name] = s
		return e.add(name, s)
	})
}

// RemoveSource takes a source out of the config at path and leaves the rest of
// the text as it is, comments included. The error has code not_found when there
// is none of that name.
func RemoveSource(path, name string) error {
	return edit(path, func(e *editor, sources map[string]Source) error {
		if _, ok := sources[name]; !ok {
			return toolroom.Errorf(toolroom.CodeNotFound, "there is no source %s in %s", name, path).
				WithHint("see what there is: toolroom sources list")
		}
		delete(sources, name)
		e.remove(name)
		return nil
	})
}

// edit changes the file by change, which does the same to the text and to the
// sources. The text is written when it then means just that.
func edit(path string, change func(*editor, map[string]Source) error) error {
	data, err := read(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	before, err := Parse(path, data)
	if err != nil {
		return err
	}
	want := *before
	want.Sources = maps.Clone(before.Sources)
	if want.Sources == nil {
		want.Sources = map[string]Source{}
	}
	e := newEditor(data)
	if key, _ := e.sources(); key == nil {
		return unsafe(path)
	}
	if err := change(e, want.Sources); err != nil {
		return err
	}
	text := e.text()
	after, err := Parse(path, text)
	if err != nil && !broken(err) {
		return err // the new source has mistakes
	}
	if err != nil || !same(&want, after) {
		return unsafe(path)
	}
	return atomicfile.Write(path, text, 0o644)
}

func unsafe(path string) error {
	return toolroom.Errorf(toolroom.CodeUnsupported, "%s is written in a way that cannot be changed safely", path).
		WithHint("change the section sources in an editor")
}

// broken tells a text that is no YAML any more.
func broken(err error) bool {
	var mistakes *Errors
	return errors.As(err, &mistakes) && mistakes.Problems[0].Key == ""
}

func same(a, b *Config) bool {
	textA, errA := yaml.Dump(a)
	textB, errB := yaml.Dump(b)
	return errA == nil && errB == nil && bytes.Equal(textA, textB)
}

// editor changes lines of a config. A rewrite from the YAML tree would keep the
// comments, but not blank lines and alignment.
type editor struct{ lines []string }

// newEditor brings the section sources into block form, one source a line or
// more, when it is not. Where it cannot, the editor finds no section.
func newEditor(data []byte) *editor {
	// Lines that end in another way than \n have other numbers in YAML.
	if strings.ContainsAny(strings.ReplaceAll(string(data), "\r\n", ""), "\r\u0085\u2028\u2029") {
		return &editor{}
	}
	e := &editor{lines: slices.Collect(strings.Lines(string(data)))}
	if n := len(e.lines); n > 0 && !strings.HasSuffix(e.lines[n-1], "\n") {
		e.lines[n-1] += "\n"
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
	// The comment behind the braces goes behind the key; those around stay in
	// their lines.
	key.LineComment, value.LineComment = value.LineComment, ""
	key.HeadComment, key.FootComment, value.FootComment = "", "", ""
	if len(value.Content) == 0 {
		value.Kind, value.Tag, value.Value = yaml.ScalarNode, "!!null", ""
	}
	text, err := yaml.Dump(&yaml.Node{Kind: yaml.MappingNode, Content: []*yaml.Node{key, value}}, yaml.WithIndent(2))
	if err != nil {
		return &editor{}
	}
	start, end := e.extent(key)
	e.replace(start, end, string(text), key.Column-1)
	return e
}

func (e *editor) text() []byte { return []byte(strings.Join(e.lines, "")) }

// sources finds the section, nil when there is none or the file as a whole is
// in braces.
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
	_, end := e.extent(key)
	e.replace(end, end, string(text), indent)
	return nil
}

func (e *editor) remove(name string) {
	_, value := e.sources()
	key, _ := entry(value, name)
	if key == nil {
		return
	}
	start, end := e.extent(key)
	e.lines = slices.Delete(e.lines, start, end)
}

// extent is the lines of a key and its value: those that follow and are
// indented deeper. Blank lines and comments count when such a line comes after
// them.
func (e *editor) extent(key *yaml.Node) (start, end int) {
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

// replace puts an indented text in the place of some lines.
func (e *editor) replace(start, end int, text string, indent int) {
	var lines []string
	for line := range strings.Lines(text) {
		lines = append(lines, strings.Repeat(" ", indent)+line)
	}
	e.lines = slices.Replace(e.lines, start, end, lines...)
}
