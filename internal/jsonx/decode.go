package jsonx

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
)

// Decode reads data into a native tree of map[string]any, []any, string, bool,
// nil and [json.Number]. Numbers keep their exact text, so integers beyond 2^53
// survive. It returns a [*SyntaxError] for anything but one document of valid
// UTF-8 within limits and without duplicate keys. The tree shares no memory
// with data.
func Decode(data []byte, limits Limits) (any, error) {
	r := NewReader(data, limits)
	tree := r.tree()
	if err := r.Finish(); err != nil {
		return nil, err
	}
	return tree, nil
}

// Check refuses exactly what [Decode] refuses, and builds nothing.
func Check(data []byte, limits Limits) error {
	r := NewReader(data, limits)
	r.Skip()
	return r.Finish()
}

// tree recurses no deeper than the depth limit of r.
func (r *Reader) tree() any {
	switch r.Peek() {
	case Object:
		object := map[string]any{}
		for r.Enter(); r.More(); {
			name := string(r.Text())
			object[name] = r.tree()
		}
		r.Leave()
		return object
	case Array:
		array := []any{}
		for r.Enter(); r.More(); {
			array = append(array, r.tree())
		}
		r.Leave()
		return array
	case String:
		return string(r.Text())
	case Number:
		return json.Number(r.Number())
	case True:
		r.token()
		return true
	case False:
		r.token()
		return false
	default: // null, or an error that Finish reports
		r.token()
		return nil
	}
}

// Marshal encodes v as encoding/json does, so that struct tags, [json.Number],
// [json.RawMessage] and marshalling methods mean what they mean there, except
// that <, > and & stay as they are. Keys of maps are sorted.
func Marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, fmt.Errorf("encode %T as JSON: %w", v, err)
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// AppendString appends text to dst as Marshal encodes it.
func AppendString(dst []byte, text string) []byte {
	for i := range len(text) {
		if c := text[i]; c < ' ' || c == '"' || c == '\\' || c >= 0x7f {
			quoted, _ := Marshal(text) // a string always has JSON
			return append(dst, quoted...)
		}
	}
	dst = append(slices.Grow(dst, len(text)+2), '"')
	return append(append(dst, text...), '"')
}

// Native makes the numbers of a decoded tree those of Go, in place: whole ones
// that fit are int, so that they compare and index as people expect, and
// fractions float64. Larger whole ones stay exact text.
func Native(v any) any {
	switch v := v.(type) {
	case json.Number:
		if n, err := v.Int64(); err == nil {
			return int(n)
		}
		if f, err := v.Float64(); err == nil && !isWhole(v) {
			return f
		}
		return v
	case map[string]any:
		for k, child := range v {
			v[k] = Native(child)
		}
	case []any:
		for i, child := range v {
			v[i] = Native(child)
		}
	}
	return v
}

func isWhole(n json.Number) bool {
	for _, c := range n {
		if c != '-' && (c < '0' || c > '9') {
			return false
		}
	}
	return true
}
