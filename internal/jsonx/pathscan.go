package jsonx

import (
	"bytes"

	"github.com/go-json-experiment/json/jsontext"
)

// The functions of this file read text that is known to be valid JSON.

func skipSpace(text []byte, i int) int {
	for i < len(text) && (text[i] == ' ' || text[i] == '\t' || text[i] == '\n' || text[i] == '\r') {
		i++
	}
	return i
}

// skipValue returns the end of the value that begins at i.
func skipValue(text []byte, i int) int {
	switch text[i] {
	case '"':
		return stringEnd(text, i)
	case '{', '[':
		return skipNested(text, i)
	}
	for i < len(text) && !isDelimiter(text[i]) {
		i++
	}
	return i
}

func isDelimiter(c byte) bool {
	return c == ',' || c == ']' || c == '}' || c == ' ' || c == '\t' || c == '\n' || c == '\r'
}

func skipNested(text []byte, i int) int {
	for depth := 0; ; i++ {
		switch text[i] {
		case '"':
			i = stringEnd(text, i) - 1
		case '{', '[':
			depth++
		case '}', ']':
			depth--
			if depth == 0 {
				return i + 1
			}
		}
	}
}

// childFunc is shown one child, v[start:end], of a value v. Its key is a JSON
// string, or nil in an array.
type childFunc func(key []byte, start, end int) bool

// eachChild visits the children of v until visit returns false, and reports
// whether it visited all. Only objects and arrays have children.
func eachChild(v []byte, visit childFunc) bool {
	if v[0] != '{' && v[0] != '[' {
		return true
	}
	last := len(v) - 1
	for i := skipSpace(v, 1); i < last; i = skipSpace(v, i) {
		if v[i] == ',' {
			i = skipSpace(v, i+1)
		}
		var key []byte
		if v[0] == '{' {
			end := stringEnd(v, i)
			key = v[i:end]
			i = skipSpace(v, skipSpace(v, end)+len(":"))
		}
		end := skipValue(v, i)
		if !visit(key, i, end) {
			return false
		}
		i = end
	}
	return true
}

// unquoted decodes a JSON string. Without an escape its bytes stay, also those that are not
// UTF-8: different texts are not equal.
func unquoted(quoted []byte) string {
	if inner := quoted[1 : len(quoted)-1]; bytes.IndexByte(inner, '\\') < 0 {
		return string(inner)
	}
	text, _ := jsontext.AppendUnquote(nil, quoted) // what is no Unicode comes out as U+FFFD
	return string(text)
}

// isKey reports whether a JSON string spells name.
func isKey(quoted []byte, name string) bool {
	inner := quoted[1 : len(quoted)-1]
	if bytes.IndexByte(inner, '\\') < 0 {
		return string(inner) == name
	}
	return unquoted(quoted) == name
}
