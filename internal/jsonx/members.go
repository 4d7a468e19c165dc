package jsonx

import (
	"bytes"
	"encoding/json"
	"fmt"
	"sync"

	"github.com/go-json-experiment/json/jsontext"
)

// A Member is a member of an object: its name, and its value as written.
type Member struct {
	Name  string
	Value json.RawMessage
}

// walker keeps a decoder's stacks between objects.
type walker struct {
	dec jsontext.Decoder
	src bytes.Buffer
}

var walkers = sync.Pool{New: func() any { return new(walker) }}

// maxPinned is the largest document that a pooled decoder may keep referenced. Releasing it
// costs more than reading a small document.
const maxPinned = 4 << 10

// reset prepares w for the next object.
func (w *walker) reset(size int) {
	w.src = bytes.Buffer{}
	if size > maxPinned {
		w.dec.Reset(&w.src)
	}
	walkers.Put(w)
}

// Members returns the members of an object in order, to forward them. It refuses only text
// that is not a JSON object and leaves the values unchanged, including duplicate names and
// invalid UTF-8. The values share the memory of object.
func Members(object []byte) ([]Member, error) {
	w := walkers.Get().(*walker)
	defer w.reset(len(object))
	w.src = *bytes.NewBuffer(object)
	w.dec.Reset(&w.src, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	dec := &w.dec
	if kind := dec.PeekKind(); kind != '{' {
		if _, err := dec.ReadToken(); err != nil {
			return nil, describe(object, err)
		}
		return nil, fmt.Errorf("the JSON is not an object")
	}
	if _, err := dec.ReadToken(); err != nil {
		return nil, describe(object, err)
	}
	members := make([]Member, 0, 8)
	for dec.PeekKind() != '}' {
		name, err := dec.ReadToken()
		if err != nil {
			return nil, describe(object, err)
		}
		text := name.String()
		value, err := dec.ReadValue()
		if err != nil {
			return nil, describe(object, err)
		}
		end := int(dec.InputOffset())
		members = append(members, Member{text, object[end-len(value) : end : end]})
	}
	if _, err := dec.ReadToken(); err != nil {
		return nil, describe(object, err)
	}
	if rest := bytes.TrimLeft(object[dec.InputOffset():], " \t\r\n"); len(rest) > 0 {
		return nil, fmt.Errorf("there is text after the JSON object: %.40q", rest)
	}
	return members, nil
}
