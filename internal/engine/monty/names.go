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

// nameTable holds the names that the program of one run can use, and the objects that were
// sent to it.
type nameTable struct {
	ready   *program.Prepared
	root    *namespace // of all global names
	objects map[protocol.ObjectID]any
	sent    []*namespace            // the namespaces that have an id
	nonce   [8]byte                 // part of each id: no object of an earlier run of the session has the same
	tools   map[string]*bridge.Tool // by the name of their function
}

// functionPrefix begins the names of functions that call tools. The tool's id follows.
const functionPrefix = "tool "

// namespace holds tools and further namespaces by name.
type namespace struct {
	path     []string
	kind     string // of unknown tools in it: cli, or empty
	source   string // the namespace in the tools' ids, if it is known
	tool     *bridge.Tool
	children map[string]*namespace
	id       protocol.ObjectID
}

func newNames(p bridge.Program, ready *program.Prepared) *nameTable {
	n := &nameTable{ready: ready, root: &namespace{}, objects: map[protocol.ObjectID]any{}, tools: map[string]*bridge.Tool{}}
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

// builtinFunctions are the global functions of a program that are not tools.
var builtinFunctions = map[string]bool{
	"call_tool": true, "run": true, "search_tools": true, "describe_tool": true, "run_chain": true, "progress": true, "log": true,
	program.ErrorDetails: true,
}

// storeObject is the global object artifacts or results, by its name.
type storeObject string

// mentionedGlobals returns the global names that the program's text contains, as inputs. Others
// are looked up when the program uses them. Names that the session's programs have bound are
// left out.
func (n *nameTable) mentionedGlobals(bound []string) bridge.Map {
	var m bridge.Map
	for name, s := range n.root.children {
		if s.tool == nil && !slices.Contains(bound, name) && strings.Contains(n.ready.Source, name) {
			m = append(m, bridge.Member{Key: name, Value: n.namespaceObject(s)})
		}
	}
	for _, name := range []string{"artifacts", "results"} {
		if !slices.Contains(bound, name) && strings.Contains(n.ready.Source, name) {
			m = append(m, bridge.Member{Key: name, Value: protocol.Instance{ID: n.addObject(storeObject(name)), Class: name}})
		}
	}
	return m
}

// addObject adds an object and returns its id.
func (n *nameTable) addObject(object any) protocol.ObjectID {
	var id protocol.ObjectID
	binary.BigEndian.PutUint32(id[4:], uint32(len(n.objects)+1))
	copy(id[8:], n.nonce[:])
	n.objects[id] = object
	return id
}

// namespaceObject returns a namespace as an object whose attributes are the namespaces in it.
// Its tools are methods, which are not sent.
func (n *nameTable) namespaceObject(s *namespace) protocol.Instance {
	if s.id == (protocol.ObjectID{}) {
		s.id = n.addObject(s)
		n.sent = append(n.sent, s)
	}
	i := protocol.Instance{ID: s.id, Class: "tools " + strings.Join(s.path, ".")}
	for name, c := range s.children {
		if c.tool == nil && strings.Contains(n.ready.Source, name) {
			i.Attrs = append(i.Attrs, bridge.Member{Key: name, Value: n.namespaceObject(c)})
		}
	}
	return i
}

// savedNamespace is a namespace that was sent to a program of the session under an id.
type savedNamespace struct {
	ID   protocol.ObjectID
	Path []string
}

func (s savedNamespace) isEmpty() bool { return len(s.Path) == 0 }

// savedNamespaces returns the namespaces that the program has, for the next run of the session.
func (n *nameTable) savedNamespaces() []savedNamespace {
	var list []savedNamespace
	for _, s := range n.sent {
		list = append(list, savedNamespace{s.id, s.path})
	}
	return list
}

// restore adds the namespaces that earlier runs of the session have.
func (n *nameTable) restore(list []savedNamespace) {
	for _, k := range list {
		s := n.root
		for _, part := range k.Path {
			s = s.child(part)
		}
		s.id = k.ID
		n.objects[k.ID] = s
		n.sent = append(n.sent, s)
	}
}

// functionValue returns a function that calls a tool.
func (n *nameTable) functionValue(t *bridge.Tool) protocol.Function {
	name := functionPrefix + t.ID
	n.tools[name] = t
	return protocol.Function{Name: name}
}

// member returns what a name in a namespace denotes: a tool, or a namespace. It makes up the
// tool if the namespace does not list it.
func (n *nameTable) member(s *namespace, name string) (*bridge.Tool, *namespace) {
	if c := s.children[name]; c != nil {
		return c.tool, c
	}
	if root := s.path[0]; len(s.path) == 1 && (root == "tools" || root == "mcp" || root == "cli") {
		return nil, s.child(name)
	}
	source := s.source
	if source == "" {
		source = n.originalName(s.path[len(s.path)-1])
	}
	return &bridge.Tool{ID: source + ":" + n.originalName(name), Path: append(s.path[1:len(s.path):len(s.path)], name), Kind: s.kind, Open: true}, nil
}

// originalName returns the name that the author wrote in a subscript and that was replaced by
// an identifier. It returns other names unchanged.
func (n *nameTable) originalName(name string) string {
	if as, ok := n.ready.OriginalNames[name]; ok {
		return as
	}
	return name
}
