package monty

import (
	"crypto/rand"
	"encoding/binary"
	"slices"
	"strings"

	"github.com/toolroom/toolroom/bridge"
	"github.com/toolroom/toolroom/internal/engine/monty/program"
	"github.com/toolroom/toolroom/internal/engine/monty/protocol"
)

// names are what a program of one run can call, and the objects that it was
// given.
type names struct {
	ready   *program.Ready
	root    *namespace // of all global names
	objects map[protocol.ObjectID]any
	given   []*namespace            // those that have an id
	nonce   [8]byte                 // so that an object of an earlier run of the session is not taken for another
	tools   map[string]*bridge.Tool // by the name of their function
}

// functionPrefix begins the name of the function that a tool is; its id follows.
const functionPrefix = "tool "

// namespace holds tools and further namespaces by name.
type namespace struct {
	path     []string
	kind     string // of unknown tools in it: cli, or empty
	source   string // the namespace of ids, where it is known
	tool     *bridge.Tool
	children map[string]*namespace
	id       protocol.ObjectID
}

func newNames(p bridge.Program, ready *program.Ready) *names {
	n := &names{ready: ready, root: &namespace{}, objects: map[protocol.ObjectID]any{}, tools: map[string]*bridge.Tool{}}
	_, _ = rand.Read(n.nonce[:]) // documented to never fail
	for _, root := range []string{"tools", "mcp", "cli"} {
		n.root.child(root)
	}
	n.root.children["cli"].kind = "cli"
	for i := range p.Tools {
		t := &p.Tools[i]
		for _, path := range append([][]string{append([]string{"tools"}, t.Path...)}, t.Globals...) {
			at := n.root
			for _, part := range path {
				at = at.child(part)
			}
			at.tool = t
			if above := n.root.find(path[:len(path)-1]); above != nil {
				above.source, _, _ = strings.Cut(t.ID, ":")
			}
		}
	}
	return n
}

func (s *namespace) child(name string) *namespace {
	c := s.children[name]
	if c == nil {
		c = &namespace{path: append(append([]string{}, s.path...), name), kind: s.kind}
		if s.children == nil {
			s.children = map[string]*namespace{}
		}
		s.children[name] = c
	}
	return c
}

func (s *namespace) find(path []string) *namespace {
	for _, part := range path {
		if s = s.children[part]; s == nil {
			return nil
		}
	}
	return s
}

// functions of the program that are no tools. artifacts and results are objects
// that have some.
var functions = map[string]bool{
	"call_tool": true, "run": true, "search_tools": true, "describe_tool": true, "run_chain": true, "progress": true, "log": true,
	program.ErrorDetails: true,
}

// store is the object artifacts or results.
type store string

// roots are the global names that the program mentions, as inputs; what is not
// among them is looked up when it is met. What a session's programs have bound is
// theirs.
func (n *names) roots(bound []string) bridge.Map {
	var m bridge.Map
	for name, s := range n.root.children {
		if s.tool == nil && !slices.Contains(bound, name) && strings.Contains(n.ready.Source, name) {
			m = append(m, bridge.Member{Key: name, Value: n.object(s)})
		}
	}
	for _, name := range []string{"artifacts", "results"} {
		if !slices.Contains(bound, name) && strings.Contains(n.ready.Source, name) {
			m = append(m, bridge.Member{Key: name, Value: protocol.Instance{ID: n.keep(store(name)), Class: name}})
		}
	}
	return m
}

// keep gives an id to an object.
func (n *names) keep(object any) protocol.ObjectID {
	var id protocol.ObjectID
	binary.BigEndian.PutUint32(id[4:], uint32(len(n.objects)+1))
	copy(id[8:], n.nonce[:])
	n.objects[id] = object
	return id
}

// object is a namespace as an object, with the namespaces in it. Its tools are
// methods, and not sent.
func (n *names) object(s *namespace) protocol.Instance {
	if s.id == (protocol.ObjectID{}) {
		s.id = n.keep(s)
		n.given = append(n.given, s)
	}
	i := protocol.Instance{ID: s.id, Class: "tools " + strings.Join(s.path, ".")}
	for name, c := range s.children {
		if c.tool == nil && strings.Contains(n.ready.Source, name) {
			i.Attrs = append(i.Attrs, bridge.Member{Key: name, Value: n.object(c)})
		}
	}
	return i
}

// kept is a namespace that a session knows by its id.
type kept struct {
	ID   protocol.ObjectID
	Path []string
}

// kept are the namespaces that the program has, for the next run of the session.
func (n *names) kept() []kept {
	var list []kept
	for _, s := range n.given {
		list = append(list, kept{s.id, s.path})
	}
	return list
}

// restore knows the namespaces of earlier runs again.
func (n *names) restore(list []kept) {
	for _, k := range list {
		s := n.root
		for _, part := range k.Path {
			s = s.child(part)
		}
		s.id = k.ID
		n.objects[k.ID] = s
		n.given = append(n.given, s)
	}
}

// function is a tool as a value of its own.
func (n *names) function(t *bridge.Tool) protocol.Function {
	name := functionPrefix + t.ID
	n.tools[name] = t
	return protocol.Function{Name: name}
}

// member is what a name below a namespace is: a tool, or a namespace.
func (n *names) member(s *namespace, name string) (*bridge.Tool, *namespace) {
	if c := s.children[name]; c != nil {
		return c.tool, c
	}
	if root := s.path[0]; len(s.path) == 1 && (root == "tools" || root == "mcp" || root == "cli") {
		return nil, s.child(name)
	}
	source := s.source
	if source == "" {
		source = n.spelled(s.path[len(s.path)-1])
	}
	return &bridge.Tool{ID: source + ":" + n.spelled(name), Path: append(s.path[1:len(s.path):len(s.path)], name), Kind: s.kind, Open: true}, nil
}

// spelled is a name as the program has it where an identifier could not.
func (n *names) spelled(name string) string {
	if as, ok := n.ready.Spelled[name]; ok {
		return as
	}
	return name
}
