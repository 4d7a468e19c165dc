package schema

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/toolroom/toolroom/internal/jsonx"
)

// For is [Infer] for a type that is known at compile time.
func For[T any]() (json.RawMessage, error) { return Infer(reflect.TypeFor[T]()) }

// Infer writes the schema of the JSON form of t, for arguments that are decoded
// into it. Struct fields are required unless tagged omitempty or omitzero, other
// properties are refused, and the tag jsonschema:"TEXT" describes a field.
//
// Null is allowed for pointers alone, and not for pointers to slices: although
// encoding/json would take it, a caller should send [] for a slice. For what a
// handler returns see [InferResult].
//
// time.Time is a date-time, []byte a base64 string, [json.Number] a number,
// [json.RawMessage] and interfaces any value. Types that have no JSON form, or
// refer to themselves, are an error that names them.
func Infer(t reflect.Type) (json.RawMessage, error) {
	return cachedInference(inferredKey{t, "arguments"}, func() (json.RawMessage, error) {
		return infer(t, func(s *jsonschema.Schema) {
			if slices.Equal(s.Types, []string{"null", "array"}) {
				s.Type, s.Types = "array", nil
			}
		})
	})
}

// inferredKey names an inferred schema: the type, and for what it was inferred.
type inferredKey struct {
	t    reflect.Type
	form string
}

// inferredTexts has the schemas that were inferred: a string for each inferredKey. Each room
// of a program has the same built-in tools.
var inferredTexts sync.Map

// cachedInference returns what infer returned for the key before, or calls it. It keeps no failures.
func cachedInference(k inferredKey, infer func() (json.RawMessage, error)) (json.RawMessage, error) {
	if text, ok := inferredTexts.Load(k); ok {
		return json.RawMessage(text.(string)), nil
	}
	text, err := infer()
	if err != nil {
		return nil, err
	}
	inferredTexts.Store(k, string(text))
	return text, nil
}

// InferWith is like [Infer], for a struct, and adds members such as enum or default to the
// schemas of the properties named.
func InferWith(t reflect.Type, members map[string]map[string]any) (json.RawMessage, error) {
	form, err := jsonx.Marshal(members)
	if err != nil {
		return nil, fmt.Errorf("schema of Go type %s: %w", t, err)
	}
	return cachedInference(inferredKey{t, "arguments with " + string(form)}, func() (json.RawMessage, error) { return inferWith(t, members) })
}

func inferWith(t reflect.Type, members map[string]map[string]any) (json.RawMessage, error) {
	var problem error
	isRoot := true
	text, err := infer(t, func(s *jsonschema.Schema) {
		if slices.Equal(s.Types, []string{"null", "array"}) {
			s.Type, s.Types = "array", nil
		}
		if !isRoot {
			return
		}
		isRoot = false // the root is visited first
		for name, more := range members {
			property, ok := s.Properties[name]
			if !ok {
				problem = fmt.Errorf("schema of Go type %s: it has no property %s", t, name)
				return
			}
			text, err := jsonx.Marshal(more)
			if err == nil {
				err = json.Unmarshal(text, property)
			}
			if err != nil {
				problem = fmt.Errorf("schema of Go type %s: property %s: %w", t, name, err)
				return
			}
		}
	})
	return text, errors.Join(problem, err)
}

// InferResult is [Infer] for values that Go encodes: there a nil slice, map or
// []byte becomes null, and the schema says so.
func InferResult(t reflect.Type) (json.RawMessage, error) {
	return cachedInference(inferredKey{t, "result"}, func() (json.RawMessage, error) {
		return infer(t, func(s *jsonschema.Schema) {
			isMap := s.Type == "object" && s.Properties == nil && s.AdditionalProperties != nil
			isBytes := s.Type == "string" && s.ContentEncoding != ""
			if isMap || isBytes {
				s.Type, s.Types = "", []string{"null", s.Type}
			}
		})
	})
}

// infer adjusts each subschema that it has inferred.
func infer(t reflect.Type, adjust func(*jsonschema.Schema)) (json.RawMessage, error) {
	if t == nil {
		return nil, errors.New("schema of a Go type: there is no type")
	}
	inferred, err := jsonschema.ForType(t, &jsonschema.ForOptions{TypeSchemas: map[reflect.Type]*jsonschema.Schema{
		reflect.TypeFor[time.Time]():       {Type: "string", Format: "date-time"},
		reflect.TypeFor[[]byte]():          {Type: "string", ContentEncoding: "base64", Examples: []any{"aGVsbG8="}},
		reflect.TypeFor[json.Number]():     {Type: "number"},
		reflect.TypeFor[json.RawMessage](): {},
	}})
	if err != nil {
		return nil, fmt.Errorf("schema of Go type %s: %w: change the type, or write the schema by hand", t, errors.Unwrap(err))
	}
	walk(inferred, adjust)
	text, err := jsonx.Marshal(inferred)
	if err != nil {
		return nil, fmt.Errorf("schema of Go type %s: %w", t, err)
	}
	return text, nil
}

// walk visits what inference can produce: nested properties, elements and
// values of maps.
func walk(s *jsonschema.Schema, visit func(*jsonschema.Schema)) {
	if s == nil {
		return
	}
	visit(s)
	walk(s.Items, visit)
	walk(s.AdditionalProperties, visit)
	for _, property := range s.Properties {
		walk(property, visit)
	}
}
