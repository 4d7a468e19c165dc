package openapi

import (
	"encoding/json"
	"iter"
	"strconv"
)

// Kind is the kind of a value.
type Kind int

// The kinds. None is that of a nil Node, a value that is not there.
const (
	KindNone Kind = iota
	KindNull
	KindBool
	KindNumber
	KindText
	KindList
	KindMap
)

// Node is one value of a document. Its methods accept nil and values of another
// kind, and then give nothing. A Node is never changed once it has been read;
// with YAML, aliases make nodes shared.
type Node struct {
	kind    Kind
	line    int
	text    string // of Text, Number and Bool
	names   []string
	members map[string]*Node
	items   []*Node
	file    *file
	// height counts the levels below n, its own among them. With shared nodes
	// it can be more than the nesting of the text.
	height int
}

// Kind tells what n is.
func (n *Node) Kind() Kind {
	if n == nil {
		return KindNone
	}
	return n.kind
}

// Get is the member of that name, or nil.
func (n *Node) Get(name string) *Node {
	if n == nil {
		return nil
	}
	return n.members[name]
}

// At is the member that names lead to, or nil.
func (n *Node) At(names ...string) *Node {
	for _, name := range names {
		n = n.Get(name)
	}
	return n
}

// Has reports whether the map has the member.
func (n *Node) Has(name string) bool { return n.Get(name) != nil }

// Members goes through a map in the order of the document.
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

// Len is the number of members or items.
func (n *Node) Len() int {
	if n == nil {
		return 0
	}
	return len(n.names) + len(n.items)
}

// Items are those of a list.
func (n *Node) Items() []*Node {
	if n == nil {
		return nil
	}
	return n.items
}

// Text is the text of a string, and empty for other kinds.
func (n *Node) Text() string {
	if n.Kind() != KindText {
		return ""
	}
	return n.text
}

// Texts are the strings of a list; other items are left out.
func (n *Node) Texts() []string {
	var texts []string
	for _, item := range n.Items() {
		if item.Kind() == KindText {
			texts = append(texts, item.text)
		}
	}
	return texts
}

// Number is the number as nearly as a float64 holds it; false for other kinds.
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

// textPerValue is how much text counts as much as a value does.
const textPerValue = 64

func (n *Node) textOrNone() string {
	if n == nil {
		return ""
	}
	return n.text
}

// Value returns n for encoding/json, numbers as they are written. It takes at most
// budget values and reports false when n has more: shared nodes can stand for
// more values than any memory holds.
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
