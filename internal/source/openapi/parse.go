package openapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/jsonx"
)

// Bounds of a document with all its files.
const (
	// MaxDocument is the maximum size of all files, in bytes.
	MaxDocument = 16 << 20
	maxFiles    = 200
	maxDepth    = 200
	// maxValues permits the largest known documents, such as GitHub's with 600,000 values,
	// and limits hostile ones to some 300 MiB of memory.
	maxValues = 2_000_000
)

// file is one parsed text.
type file struct {
	name string // relative to the folder of the root document, with slashes
	root *Node
}

// parser fills a file, counting against the set's bounds.
type parser struct {
	file   *file
	values *int
	// aliases are the nodes of YAML anchors. One that is present but nil is still being
	// read, so that an alias to it is a circle.
	aliases map[*yaml.Node]*Node
}

func (s *Set) parse(name string, data []byte) (*file, error) {
	f := &file{name: name}
	p := &parser{file: f, values: &s.values, aliases: map[*yaml.Node]*Node{}}
	var err error
	if first := bytes.TrimLeft(bytes.TrimPrefix(data, []byte("\uFEFF")), " \t\r\n"); len(first) > 0 && first[0] == '{' {
		f.root, err = p.json(bytes.TrimPrefix(data, []byte("\uFEFF")))
	} else {
		f.root, err = p.yaml(data)
	}
	if err != nil {
		return nil, documentError(name, err)
	}
	if f.root.Kind() != KindMap {
		return nil, documentError(name, errors.New("it is not a JSON object or a YAML mapping"))
	}
	return f, nil
}

// documentError returns an error about the named file. Its code is upstream_error, because
// the document, not the caller, is at fault.
func documentError(name string, err error) error {
	if typed, ok := errors.AsType[*toolroom.Error](err); ok {
		return typed
	}
	return toolroom.Errorf(toolroom.CodeUpstreamError, "the document %s cannot be read: %w", name, err).
		WithHint("correct the document, or point spec to another")
}

func (p *parser) node(kind Kind, line int) (*Node, error) {
	if *p.values++; *p.values > maxValues {
		return nil, toolroom.Errorf(toolroom.CodeResourceLimit, "the document %s has more than %d values", p.file.name, maxValues).
			WithHint("import a smaller document")
	}
	return &Node{kind: kind, line: line, file: p.file}, nil
}

func (p *parser) json(data []byte) (*Node, error) {
	reader := jsonx.NewReader(data, jsonx.Limits{Bytes: MaxDocument, Depth: maxDepth})
	root, err := p.readJSON(reader)
	if err != nil {
		reader.Abandon()
		return nil, err
	}
	return root, reader.Finish()
}

// readJSON leaves syntax errors to the reader, which keeps the first.
func (p *parser) readJSON(reader *jsonx.Reader) (*Node, error) {
	kind := reader.Peek()
	n, err := p.node(KindNull, 0)
	if err != nil {
		return nil, err
	}
	switch kind {
	case jsonx.Object:
		n.kind, n.members = KindMap, map[string]*Node{}
		for reader.Enter(); reader.More(); {
			name := string(reader.Text())
			member, err := p.readJSON(reader)
			if err != nil {
				return nil, err
			}
			n.setMember(name, member)
		}
		reader.Leave()
	case jsonx.Array:
		n.kind = KindList
		for reader.Enter(); reader.More(); {
			item, err := p.readJSON(reader)
			if err != nil {
				return nil, err
			}
			n.items = append(n.items, item)
		}
		reader.Leave()
	case jsonx.String:
		n.kind, n.text = KindText, string(reader.Text())
	case jsonx.Number:
		n.kind, n.text = KindNumber, string(reader.Number())
	case jsonx.True, jsonx.False:
		n.kind, n.text = KindBool, strconv.FormatBool(kind == jsonx.True)
		reader.Skip()
	default:
		reader.Skip()
	}
	return n, nil
}

func (n *Node) setMember(name string, member *Node) {
	if _, again := n.members[name]; !again {
		n.names = append(n.names, name)
	}
	n.members[name] = member
}

func (p *parser) yaml(data []byte) (*Node, error) {
	var root yaml.Node
	if err := yaml.Unmarshal(data, &root); err != nil {
		return nil, err
	}
	if root.Kind != yaml.DocumentNode || len(root.Content) == 0 {
		return nil, errors.New("it is empty")
	}
	return p.readYAML(root.Content[0], 0)
}

func (p *parser) readYAML(y *yaml.Node, depth int) (*Node, error) {
	if depth > maxDepth {
		return nil, fmt.Errorf("line %d: more than %d levels of nesting", y.Line, maxDepth)
	}
	if y.Anchor != "" {
		p.aliases[y] = nil
	}
	n, err := p.node(KindNull, y.Line)
	if err != nil {
		return nil, err
	}
	switch y.Kind {
	case yaml.AliasNode:
		target, read := p.aliases[y.Alias]
		if !read || target == nil {
			return nil, fmt.Errorf("line %d: *%s stands inside of what it names", y.Line, y.Value)
		}
		return target, nil
	case yaml.MappingNode:
		n.kind, n.members = KindMap, map[string]*Node{}
		err = p.readMapping(n, y, depth)
	case yaml.SequenceNode:
		n.kind = KindList
		for _, content := range y.Content {
			item, err := p.readYAML(content, depth+1)
			if err != nil {
				return nil, err
			}
			n.items = append(n.items, item)
		}
	default:
		err = n.setScalar(y)
	}
	if err != nil {
		return nil, err
	}
	if n.setHeight(); n.height > maxDepth {
		return nil, fmt.Errorf("line %d: more than %d levels of nesting", y.Line, maxDepth)
	}
	if y.Anchor != "" {
		p.aliases[y] = n
	}
	return n, nil
}

func (n *Node) setHeight() {
	for _, member := range n.members {
		n.height = max(n.height, member.height)
	}
	for _, item := range n.items {
		n.height = max(n.height, item.height)
	}
	n.height++
}

func (p *parser) readMapping(n *Node, y *yaml.Node, depth int) error {
	var merged []*Node
	for i := 0; i+1 < len(y.Content); i += 2 {
		key, content := y.Content[i], y.Content[i+1]
		if key.Kind != yaml.ScalarNode {
			return fmt.Errorf("line %d: a key that is not a word", key.Line)
		}
		member, err := p.readYAML(content, depth+1)
		if err != nil {
			return err
		}
		switch {
		case key.ShortTag() == "!!merge":
			merged = append(merged, member)
		case n.Has(key.Value):
			return fmt.Errorf("line %d: the key %q is there twice", key.Line, key.Value)
		default:
			n.setMember(key.Value, member)
		}
	}
	// What the mapping says itself goes before what it merges.
	for _, m := range merged {
		for _, from := range append([]*Node{m}, m.Items()...) {
			for name, member := range from.Members() {
				if *p.values++; *p.values > maxValues {
					return fmt.Errorf("line %d: merges make more than %d values", y.Line, maxValues)
				}
				if !n.Has(name) {
					n.setMember(name, member)
				}
			}
		}
	}
	return nil
}

var jsonNumber = regexp.MustCompile(`^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?$`)

func (n *Node) setScalar(y *yaml.Node) error {
	n.text = y.Value
	switch y.ShortTag() {
	case "!!null":
		n.text = ""
	case "!!bool":
		n.kind = KindBool
		n.text = strconv.FormatBool(strings.EqualFold(y.Value, "true"))
	case "!!int", "!!float":
		n.kind = KindNumber
		if !jsonNumber.MatchString(y.Value) {
			return n.convertNumber(y)
		}
	default: // Dates, too, are only text to JSON.
		n.kind = KindText
	}
	return nil
}

// convertNumber converts numbers that only YAML has, such as 0x1F, 1_000, +1 and .5, to JSON.
// Those that JSON cannot represent stay text.
func (n *Node) convertNumber(y *yaml.Node) error {
	var value any
	if err := y.Decode(&value); err != nil {
		return fmt.Errorf("line %d: %w", y.Line, err)
	}
	text, err := json.Marshal(value)
	if err != nil || !jsonNumber.Match(text) {
		n.kind = KindText
		return nil
	}
	n.text = string(text)
	return nil
}
