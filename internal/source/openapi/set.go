package openapi

import (
	"errors"
	"fmt"
	"net/url"
	"path"
	"strconv"
	"strings"

	"github.com/toolroom/toolroom"
)

// ReadFile returns the content of a file next to the root document, or its first most+1 bytes
// if it is longer than most. The name is a clean relative path with slashes that does not lead
// upwards.
type ReadFile func(name string, most int64) ([]byte, error)

// Set is a document with the files that it refers to, which are read when they are first
// needed. It is not safe for concurrent use.
type Set struct {
	read   ReadFile
	root   *file
	files  map[string]*file
	bytes  int64
	values int
	// resolved are the targets of references. Many schemas combine the same ones, and to follow a
	// reference takes long, compared with all else that is done for a schema.
	resolved map[*Node]*Node
}

// ParseSet reads the text of a root document of that name. Read may be nil: then
// references to other files fail. Errors are of type *toolroom.Error with code
// upstream_error, or resource_limit for a document that is too large.
func ParseSet(name string, data []byte, read ReadFile) (*Set, error) {
	s := &Set{read: read, files: map[string]*file{}, resolved: map[*Node]*Node{}}
	if err := s.countBytes(name, data); err != nil {
		return nil, err
	}
	root, err := s.parse(name, data)
	if err != nil {
		return nil, err
	}
	if isSwagger(root.root) {
		if err := fromSwagger(root.root); err != nil {
			return nil, err
		}
	}
	s.root, s.files[name] = root, root
	return s, nil
}

// Root returns the root document.
func (s *Set) Root() *Node { return s.root.root }

// Position returns the position of n for messages, such as " in pets.yaml, line 3". It is empty
// if the position is unknown.
func (s *Set) Position(n *Node) string {
	switch {
	case n == nil || n.line == 0 && n.file == s.root:
		return ""
	case n.line == 0:
		return " in " + n.file.name
	default:
		return fmt.Sprintf(" in %s, line %d", n.file.name, n.line)
	}
}

func (s *Set) countBytes(name string, data []byte) error {
	s.bytes += int64(len(data))
	if s.bytes > MaxDocument {
		return toolroom.Errorf(toolroom.CodeResourceLimit, "the document is larger than %d bytes, with %s", MaxDocument, name).
			WithHint("import a smaller document")
	}
	return nil
}

const (
	maxHops    = 20
	maxPointer = 4096
)

// Resolve follows references ($ref) and returns the node that they lead to, or n itself if it
// is not a reference. The result is nil only if n is.
func (s *Set) Resolve(n *Node) (*Node, error) {
	if !n.Has("$ref") {
		return n, nil
	}
	if target, ok := s.resolved[n]; ok {
		return target, nil
	}
	hops := 0
	target, err := s.resolve(n, &hops)
	if err == nil {
		s.resolved[n] = target
	}
	return target, err
}

func (s *Set) resolve(n *Node, hops *int) (*Node, error) {
	for n.Get("$ref").Kind() == KindText {
		if *hops++; *hops > maxHops {
			return nil, s.brokenReference(n, "it leads through more than %d others, or in a circle", maxHops)
		}
		target, err := s.resolveOnce(n, hops)
		if err != nil {
			return nil, err
		}
		n = target
	}
	return n, nil
}

func (s *Set) resolveOnce(n *Node, hops *int) (*Node, error) {
	ref := n.Get("$ref").Text()
	if len(ref) > maxPointer {
		return nil, s.brokenReference(n, "it is longer than %d bytes", maxPointer)
	}
	location, pointer, _ := strings.Cut(ref, "#")
	f := n.file
	if location != "" {
		var err error
		if f, err = s.open(n, location); err != nil {
			return nil, err
		}
	}
	pointer, err := url.PathUnescape(pointer)
	if err != nil {
		return nil, s.brokenReference(n, "its pointer is not escaped right")
	}
	if pointer != "" && pointer[0] != '/' {
		return nil, s.brokenReference(n, "it names an anchor; only pointers such as #/components/schemas/Pet are understood")
	}
	at := f.root
	if pointer == "" {
		return at, nil
	}
	for token := range strings.SplitSeq(pointer[1:], "/") {
		// A pointer may lead through a value that is a reference itself.
		if at, err = s.resolve(at, hops); err != nil {
			return nil, err
		}
		next := at.Get(strings.NewReplacer("~1", "/", "~0", "~").Replace(token))
		if i, err := strconv.Atoi(token); err == nil && at.Kind() == KindList && i >= 0 && i < len(at.items) {
			next = at.items[i]
		}
		if next == nil {
			return nil, s.brokenReference(n, "there is nothing at %q of it", token)
		}
		at = next
	}
	return at, nil
}

// open reads a file next to the one that contains n. It returns an error for URLs: a document
// must not make this machine fetch what its author chooses.
func (s *Set) open(n *Node, location string) (*file, error) {
	address, err := url.Parse(location)
	if err != nil {
		return nil, s.brokenReference(n, "it is not an address")
	}
	if address.Scheme != "" || address.Host != "" {
		return nil, s.refusedReference(n, "it leads to another host, which is not fetched")
	}
	name := path.Join(path.Dir(n.file.name), address.Path)
	if path.IsAbs(address.Path) || name == ".." || strings.HasPrefix(name, "../") || strings.Contains(name, `\`) {
		return nil, s.refusedReference(n, "it leads out of the document's folder")
	}
	if f, ok := s.files[name]; ok {
		return f, nil
	}
	if s.read == nil {
		return nil, s.refusedReference(n, "it names a file, and a document that was fetched has none next to it")
	}
	if len(s.files) >= maxFiles {
		return nil, toolroom.Errorf(toolroom.CodeResourceLimit, "the document refers to more than %d files", maxFiles).
			WithHint("bundle the document into one file")
	}
	data, err := s.read(name, MaxDocument-s.bytes)
	if err != nil {
		return nil, s.brokenReference(n, "its file cannot be read: %w", err)
	}
	if err := s.countBytes(name, data); err != nil {
		return nil, err
	}
	f, err := s.parse(name, data)
	if err != nil {
		return nil, err
	}
	s.files[name] = f
	return f, nil
}

func (s *Set) brokenReference(n *Node, format string, args ...any) error {
	return toolroom.Errorf(toolroom.CodeUpstreamError, "the reference %.100q%s is broken: %w",
		n.Get("$ref").Text(), s.Position(n), fmt.Errorf(format, args...)).
		WithHint("correct the document, or leave the operation out with exclude")
}

func (s *Set) refusedReference(n *Node, reason string) error {
	return toolroom.Errorf(toolroom.CodeUnsupported, "the reference %.100q%s is refused: %w",
		n.Get("$ref").Text(), s.Position(n), errors.New(reason)).
		WithHint("bundle the document into one file, or put the file next to it")
}
