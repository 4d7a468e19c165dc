package openapi

import (
	"encoding/json"
	"iter"
	"strconv"
)

// Kind is the kind of a value.
type Kind int

// The kinds. KindNone is the kind of a nil Node, which means that there is no value.
const (
	KindNone Kind = iota
	KindNull
	KindBool
	KindNumber
	KindText
	KindList
	KindMap
)

// Node is one value of a document. Its methods return zero values for a nil Node and for
// values of another kind. A Node is not changed after it has been read, because YAML
// aliases share nodes.
type Node struct {
	kind    Kind
	line    int
	text    string // of Text, Number and Bool
	names   []string
	members map[string]*Node
	items   []*Node
	file    *file
	// height is the number of levels of n and below. With shared nodes it can be larger
	// than the nesting of the text.
	height int
}

// Kind returns the kind of n.
func (n *Node) Kind() Kind {
	if n == nil {
		return KindNone
	}
	return n.kind
}

// Get returns the member with a name, or nil.
func (n *Node) Get(name string) *Node {
	if n == nil {
		return nil
	}
	return n.members[name]
}

// At returns the member at a path of names, or nil.
func (n *Node) At(names ...string) *Node {
	for _, name := range names {
		n = n.Get(name)
	}
	return n
}

// Has reports whether n has a member with a name.
func (n *Node) Has(name string) bool { return n.Get(name) != nil }

// Members returns the members of a map in the order of the document.
func (n *Node) Members() iter.Seq2[string, *Node] {
	return func(yield func(string, *Node) bool) {
		if n == nil {
			return
		}
		for _, name := range n.names {
			if !yield(name, n.members[name]) {
				return
			}
		}
	}
}

// Len returns the number of members or items.
func (n *Node) Len() int {
	if n == nil {
		return 0
	}
	return len(n.names) + len(n.items)
}

// Items returns the items of a list.
func (n *Node) Items() []*Node {
	if n == nil {
		return nil
	}
	return n.items
}

// Text returns the text of a string, or "" for other kinds.
func (n *Node) Text() string {
	if n.Kind() != KindText {
		return ""
	}
	return n.text
}

// Texts returns the strings in a list. It leaves out other items.
func (n *Node) Texts() []string {
	var texts []string
	for _, item := range n.Items() {
		if item.Kind() == KindText {
			texts = append(texts, item.text)
		}
	}
	return texts
}

// Number returns a number as the nearest float64, or false for other kinds.
func (n *Node) Number() (float64, bool) {
	if n.Kind() != KindNumber {
		return 0, false
	}
	number, err := strconv.ParseFloat(n.text, 64)
	return number, err == nil
}

// True reports whether n is the boolean true.
func (n *Node) True() bool { return n.Kind() == KindBool && n.text == "true" }

// False reports whether n is the boolean false.
func (n *Node) False() bool { return n.Kind() == KindBool && n.text == "false" }

// textPerValue is the length of text, in bytes, that counts as one value in Value.
const textPerValue = 64

func (n *Node) textOrNone() string {
	if n == nil {
		return ""
	}
	return n.text
}

// Value returns n as a value for encoding/json, with numbers as they are written. It
// subtracts the number of values from budget, and returns false if that is not enough,
// because shared nodes can stand for more values than fit in memory.
func (n *Node) Value(budget *int) (any, bool) {
	if *budget -= 1 + len(n.textOrNone())/textPerValue; *budget < 0 {
		return nil, false
	}
	switch n.Kind() {
	case KindBool:
		return n.True(), true
	case KindNumber:
		return json.Number(n.text), true
	case KindText:
		return n.text, true
	case KindList:
		list := make([]any, len(n.items))
		for i, item := range n.items {
			value, ok := item.Value(budget)
			if !ok {
				return nil, false
			}
			list[i] = value
		}
		return list, true
	case KindMap:
		object := make(map[string]any, len(n.names))
		for name, member := range n.Members() {
			value, ok := member.Value(budget)
			if !ok {
				return nil, false
			}
			object[name] = value
		}
		return object, true
	default:
		return nil, true
	}
}
