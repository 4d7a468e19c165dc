package catalog

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/toolroom/toolroom/internal/jsonx"
	"github.com/toolroom/toolroom/internal/reserved"
)

// pythonCall returns a call in Python, with keyword arguments if the names permit it.
func pythonCall(e *Entry, args json.RawMessage) string {
	id := e.Tool.ID
	in := json.NewDecoder(bytes.NewReader(args))
	in.UseNumber()
	keywords, ok := pythonKeywordArguments(in)
	switch {
	case !isIdentifier(id.Namespace) || !isIdentifier(id.Name):
		return fmt.Sprintf("call_tool(%q, %s)", id, pythonLiteral(args))
	case !ok:
		return fmt.Sprintf("tools.%s.%s(%s)", id.Namespace, id.Name, pythonLiteral(args))
	}
	return fmt.Sprintf("tools.%s.%s(%s)", id.Namespace, id.Name, keywords)
}

// pythonKeywordArguments writes the members of an object in their order. It returns
// false if a name cannot be that of a keyword argument.
func pythonKeywordArguments(in *json.Decoder) (text string, ok bool) {
	if t, err := in.Token(); err != nil || t != json.Delim('{') {
		return "", false
	}
	var parts []string
	for in.More() {
		key, err := in.Token()
		name, isText := key.(string)
		var value json.RawMessage
		if err != nil || !isText || in.Decode(&value) != nil {
			return "", false
		}
		if !isIdentifier(strings.ToLower(name)) || reserved.PythonKeyword(name) {
			return "", false
		}
		parts = append(parts, name+"="+pythonLiteral(value))
	}
	return strings.Join(parts, ", "), true
}

// pythonLiteral returns a JSON value as a Python literal: only true, false and null
// differ, except within strings.
func pythonLiteral(raw json.RawMessage) string {
	var b strings.Builder
	text := string(raw)
	for at := 0; at < len(text); {
		switch rest := text[at:]; {
		case rest[0] == '"':
			end := 1
			for end < len(rest) && rest[end] != '"' {
				if rest[end] == '\\' {
					end++
				}
				end++
			}
			end = min(end+1, len(rest))
			b.WriteString(pythonString(rest[:end]))
			at += end
		case strings.HasPrefix(rest, "true"):
			b.WriteString("True")
			at += len("true")
		case strings.HasPrefix(rest, "false"):
			b.WriteString("False")
			at += len("false")
		case strings.HasPrefix(rest, "null"):
			b.WriteString("None")
			at += len("null")
		default:
			b.WriteByte(rest[0])
			at++
		}
	}
	return b.String()
}

// pythonString returns a JSON string as a Python literal. JSON writes a character such as an
// emoji as two escapes, which in Python are two characters; and it may escape a slash.
func pythonString(literal string) string {
	var text string
	if !strings.Contains(literal, `\u`) || json.Unmarshal([]byte(literal), &text) != nil {
		return strings.ReplaceAll(literal, `\/`, "/")
	}
	plain, err := jsonx.Marshal(text)
	if err != nil {
		return literal
	}
	return string(plain)
}
