package jsonx

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/go-json-experiment/json/jsontext"
)

// A Member is a name in an object, and its value as it is written there.
type Member struct {
	Name  string
	Value json.RawMessage
}

// Members reads the members of an object in their order, for passing them on: it
// refuses only what is not an object of JSON, and leaves the values as they are,
// duplicate names and broken UTF-8 included. The values share the memory of
// object.
func Members(object []byte) ([]Member, error) {
	dec := jsontext.NewDecoder(bytes.NewBuffer(object), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	if kind := dec.PeekKind(); kind != '{' {
		if _, err := dec.ReadToken(); err != nil {
			return nil, describe(object, err)
		}
		return nil, fmt.Errorf("the JSON is no object")
	}
	if _, err := dec.ReadToken(); err != nil {
		return nil, describe(object, err)
	}
	var members []Member
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
	return members, nil
}
