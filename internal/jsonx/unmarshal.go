package jsonx

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/go-json-experiment/json/jsontext"
)

// Unmarshal decodes data into v as encoding/json does, but rejects documents that another
// decoder might understand differently: those that [Check] rejects, and those with members
// whose names match a field of v except for their case. It ignores other unknown members. A
// [json.RawMessage] gets its text unchanged and unchecked.
func Unmarshal(data []byte, v any, limits Limits) error { return unmarshal(data, v, limits, false) }

// UnmarshalKnown is Unmarshal that refuses unknown members, too.
func UnmarshalKnown(data []byte, v any, limits Limits) error {
	return unmarshal(data, v, limits, true)
}

func unmarshal(data []byte, v any, limits Limits, known bool) error {
	if limits = limits.withDefaults(); len(data) > limits.Bytes {
		return Check(data, limits) // says so
	}
	if err := checkAs(bytes.Trim(data, " \t\r\n"), reflect.TypeOf(v), limits, known); err != nil {
		return err
	}
	decoder := json.NewDecoder(bytes.NewReader(data))
	if known {
		decoder.DisallowUnknownFields() // below the depth that checkAs reads
	}
	return decoder.Decode(v)
}

// checkAs returns an error if decoders could decode a value into a t in different ways. Each
// level uses one level of the depth limit. If known is set, it also rejects members that are
// not fields of their struct.
func checkAs(value []byte, t reflect.Type, limits Limits, known bool) error {
	for t != nil && t.Kind() == reflect.Pointer && !decodesItself(t) {
		t = t.Elem()
	}
	if t == rawMessage {
		if json.Valid(value) {
			return nil
		}
		return Check(value, limits)
	}
	if len(value) == 0 || t == nil || decodesItself(t) || limits.Depth <= 1 {
		return Check(value, limits)
	}
	inner := limits
	inner.Depth--
	switch kind := t.Kind(); {
	case value[0] == '{' && (kind == reflect.Struct || kind == reflect.Map):
		return checkObject(value, t, inner, known)
	case value[0] == '[' && (kind == reflect.Slice || kind == reflect.Array):
		var elements []json.RawMessage
		if json.Unmarshal(value, &elements) != nil {
			return Check(value, limits)
		}
		for i, one := range elements {
			if err := checkAs(one, t.Elem(), inner, known); err != nil {
				return fmt.Errorf("in element %d: %w", i, err)
			}
		}
		return nil
	}
	return Check(value, limits)
}

func checkObject(object []byte, t reflect.Type, inner Limits, known bool) error {
	members, err := Members(object)
	if err != nil {
		return err
	}
	seen := make(map[string]bool, len(members))
	for _, m := range members {
		if seen[m.Name] {
			return fmt.Errorf("duplicate key %q: keep one of them", shorten(m.Name))
		}
		seen[m.Name] = true
		var of reflect.Type
		if t.Kind() == reflect.Map {
			of = t.Elem()
		} else if of, err = fieldOf(t, m.Name); err != nil {
			return err
		}
		if err := checkAs(m.Value, of, inner, known); err != nil {
			return fmt.Errorf("in %q: %w", shorten(m.Name), err)
		}
		if of == nil && known && t.Kind() == reflect.Struct {
			return fmt.Errorf("unknown field %q: the fields are %s", shorten(m.Name), fieldNames(t))
		}
	}
	return nil
}

// fieldOf returns the type of a struct's field, or nil if there is none. If the name matches a
// field except for its case, which encoding/json accepts, fieldOf returns an error.
func fieldOf(t reflect.Type, name string) (reflect.Type, error) {
	fields := fieldsOf(t)
	if of, ok := fields[name]; ok {
		return of, nil
	}
	for other := range fields {
		if strings.EqualFold(other, name) {
			return nil, fmt.Errorf("the name %q differs from %q in case: write names as they are documented", shorten(name), other)
		}
	}
	return nil, nil
}

// fieldNames lists the fields of a struct for an error.
func fieldNames(t reflect.Type) string {
	return strings.Join(slices.Sorted(maps.Keys(fieldsOf(t))), ", ")
}

var rawMessage = reflect.TypeFor[json.RawMessage]()

var unmarshaler = reflect.TypeFor[json.Unmarshaler]()

func decodesItself(t reflect.Type) bool {
	return t.Implements(unmarshaler) || reflect.PointerTo(t).Implements(unmarshaler)
}

// knownTypes keeps the fields of types: reflection costs more than reading.
var knownTypes sync.Map // reflect.Type to map[string]reflect.Type

// fieldsOf returns the types of a struct's fields by their names in JSON, those of
// embedded structs among them.
func fieldsOf(t reflect.Type) map[string]reflect.Type {
	if fields, ok := knownTypes.Load(t); ok {
		return fields.(map[string]reflect.Type)
	}
	fields := map[string]reflect.Type{}
	for _, f := range reflect.VisibleFields(t) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Tag.Get("json") == "-" || !f.IsExported():
			continue
		case name == "" && f.Anonymous && isEmbedded(f.Type):
			continue // its fields are visible themselves
		case name == "":
			name = f.Name
		}
		if _, outer := fields[name]; !outer {
			fields[name] = f.Type
		}
	}
	knownTypes.Store(t, fields)
	return fields
}

func isEmbedded(t reflect.Type) bool {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t.Kind() == reflect.Struct
}

// CheckMembers returns an error if data is not JSON, has text after the document, or has an
// object with a duplicate member. Unlike [Check] it accepts invalid UTF-8, unpaired surrogates
// and any depth, for documents that are forwarded unchanged.
func CheckMembers(data []byte) error {
	w := walkers.Get().(*walker)
	defer w.reset(len(data))
	w.src = *bytes.NewBuffer(data)
	w.dec.Reset(&w.src, jsontext.AllowInvalidUTF8(true))
	if _, err := w.dec.ReadValue(); err != nil {
		return describe(data, err)
	}
	if rest := bytes.TrimLeft(data[w.dec.InputOffset():], " \t\r\n"); len(rest) > 0 {
		return newSyntaxError(data, len(data)-len(rest), "", "text after the end of the document", "send exactly one document")
	}
	return nil
}
