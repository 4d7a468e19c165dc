package jsonx

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
)

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
