package mcp

import (
	"encoding/json"
	"slices"

	"github.com/toolroom/toolroom/internal/jsonx"
)

// Object is a JSON object whose members keep their order and their text. The zero
// value is empty.
type Object struct{ fields []Field }

// ReadObject reads an object. If several members have the same name, the last one counts.
func ReadObject(text json.RawMessage) (Object, error) {
	members, err := jsonx.Members(text)
	if err != nil {
		return Object{}, err
	}
	o := Object{make([]Field, 0, len(members)+1)}
	for _, m := range members {
		o.Set(m.Name, m.Value)
	}
	return o, nil
}

// Get returns the value of a member, or nil if there is none.
func (o *Object) Get(name string) json.RawMessage {
	for i := range o.fields {
		if o.fields[i].Name == name {
			return o.fields[i].Value
		}
	}
	return nil
}

// Set replaces the value of a member, or adds the member at the end.
func (o *Object) Set(name string, value json.RawMessage) {
	for i := range o.fields {
		if o.fields[i].Name == name {
			o.fields[i].Value = value
			return
		}
	}
	o.fields = append(o.fields, Field{name, value})
}

// Drop removes a member, if it is there.
func (o *Object) Drop(name string) {
	o.fields = slices.DeleteFunc(o.fields, func(f Field) bool { return f.Name == name })
}

// Empty reports whether the object has no members.
func (o *Object) Empty() bool { return len(o.fields) == 0 }

// JSON returns the object. Line ends between tokens are removed.
func (o *Object) JSON() json.RawMessage { return object(o.fields) }
