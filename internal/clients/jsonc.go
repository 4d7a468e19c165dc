package clients

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
)

// decodeJSON decodes JSON with comments and trailing commas. Errors begin with line:column.
func decodeJSON(text []byte, v any) error {
	text = bytes.TrimPrefix(text, []byte("\xef\xbb\xbf"))
	if len(bytes.TrimSpace(text)) == 0 {
		return nil
	}
	text = plainJSON(text)
	err := json.Unmarshal(text, v)
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &syntax):
		return fmt.Errorf("%s: not JSON: %w", position(text, syntax.Offset), err)
	case errors.As(err, &kind):
		return fmt.Errorf("%s: %s is %s, want %s", position(text, kind.Offset), cmp.Or(kind.Field, "the file"), kind.Value, jsonType(kind.Type))
	default:
		return fmt.Errorf("1:1: %w", err)
	}
}

// jsonType returns the name in JSON of a type that a value does not fit.
func jsonType(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Struct, reflect.Map:
		return "object"
	case reflect.Slice:
		return "array"
	}
	return t.String()
}

func position(text []byte, offset int64) string {
	before := text[:min(max(offset-1, 0), int64(len(text)))]
	return fmt.Sprintf("%d:%d", bytes.Count(before, []byte("\n"))+1, len(before)-bytes.LastIndexByte(before, '\n'))
}

// plainJSON replaces comments and trailing commas by blanks, so that positions do not
// change.
func plainJSON(text []byte) []byte {
	out := bytes.Clone(text)
	comma := -1 // the last comma that is followed only by blanks and comments
	for at := 0; at < len(out); at++ {
		switch c := out[at]; {
		case c == '"':
			comma = -1
			for at++; at < len(out) && out[at] != '"'; at++ {
				if out[at] == '\\' {
					at++
				}
			}
		case c == '/' && at+1 < len(out) && out[at+1] == '/':
			at = blank(out, at, lengthTo(out[at:], "\n"))
		case c == '/' && at+1 < len(out) && out[at+1] == '*':
			at = blank(out, at, 2+lengthTo(out[at+2:], "*/")+2)
		case c == ',':
			comma = at
		case c == '}' || c == ']':
			if comma >= 0 {
				out[comma] = ' '
			}
			comma = -1
		case c != ' ' && c != '\t' && c != '\r' && c != '\n':
			comma = -1
		}
	}
	return out
}

func lengthTo(text []byte, end string) int {
	if i := bytes.Index(text, []byte(end)); i >= 0 {
		return i
	}
	return len(text)
}

// blank overwrites n bytes, except line ends, and returns the index of the last one.
func blank(text []byte, at, n int) int {
	end := min(at+n, len(text))
	for i := at; i < end; i++ {
		if text[i] != '\n' {
			text[i] = ' '
		}
	}
	return end - 1
}
