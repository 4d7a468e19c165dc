package mcp

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/toolroom/toolroom/internal/jsonx"
)

// encodeHeader encodes a value as MCP 2026-07-28 requires for headers: unchanged if it
// is plain ASCII, else as base64 between markers.
func encodeHeader(value string) string {
	const begin, end = "=?base64?", "?="
	plain := value == strings.TrimSpace(value) && !(strings.HasPrefix(value, begin) && strings.HasSuffix(value, end))
	for i := 0; plain && i < len(value); i++ {
		plain = value[i] >= ' ' && value[i] <= '~' || value[i] == '\t'
	}
	if plain {
		return value
	}
	return begin + base64.StdEncoding.EncodeToString([]byte(value)) + end
}

// HeaderParam names an argument of a tool that is also sent in a header, because the
// tool's input schema has x-mcp-header (SEP-2243).
type HeaderParam struct {
	path   []string
	header string
}

// maxNesting limits the nesting of parameters with x-mcp-header.
const maxNesting = 32

// HeaderParams returns the bindings of an input schema. It returns an error if an
// annotation is invalid: such a tool must not be offered.
func HeaderParams(schema json.RawMessage) ([]HeaderParam, error) {
	if !bytes.Contains(schema, []byte("x-mcp-header")) {
		return nil, nil
	}
	var found []HeaderParam
	seen := map[string]bool{}
	var walk func(schema json.RawMessage, path []string) error
	walk = func(schema json.RawMessage, path []string) error {
		var node struct {
			Type       json.RawMessage            `json:"type"`
			Header     json.RawMessage            `json:"x-mcp-header"`
			Properties map[string]json.RawMessage `json:"properties"`
		}
		if json.Unmarshal(schema, &node) != nil {
			return nil // a boolean schema annotates nothing
		}
		if node.Header != nil {
			var name, kind string
			_ = json.Unmarshal(node.Type, &kind)
			switch {
			case len(path) == 0:
				return fmt.Errorf("x-mcp-header is set on the schema itself, not on a parameter")
			case json.Unmarshal(node.Header, &name) != nil || !isToken(name):
				return fmt.Errorf("x-mcp-header of %s is not a header name: %.40s", strings.Join(path, "."), node.Header)
			case kind != "string" && kind != "integer" && kind != "boolean":
				return fmt.Errorf("x-mcp-header of %s is set on a parameter of type %.40s, not string, integer or boolean", strings.Join(path, "."), node.Type)
			case seen[strings.ToLower(name)]:
				return fmt.Errorf("x-mcp-header %s is set on two parameters", name)
			}
			seen[strings.ToLower(name)] = true
			found = append(found, HeaderParam{path, "Mcp-Param-" + name})
		}
		if len(path) >= maxNesting && len(node.Properties) > 0 {
			return fmt.Errorf("the parameters are nested deeper than %d", maxNesting)
		}
		for name, property := range node.Properties {
			if err := walk(property, append(path[:len(path):len(path)], name)); err != nil {
				return err
			}
		}
		return nil
	}
	return found, walk(schema, nil)
}

// ParamHeaders returns the headers for the arguments of a call.
func ParamHeaders(params []HeaderParam, arguments json.RawMessage) map[string]string {
	headers := map[string]string{}
	if len(params) == 0 {
		return headers
	}
	tree, _ := jsonx.Decode(arguments, jsonx.Limits{}) // nil has no arguments
	for _, b := range params {
		if text, ok := headerText(memberAt(tree, b.path)); ok {
			headers[b.header] = text
		}
	}
	return headers
}

// memberAt returns the value at a path of a decoded object, or nil if there is none.
func memberAt(tree any, path []string) any {
	for _, name := range path {
		object, _ := tree.(map[string]any)
		tree = object[name]
	}
	return tree
}

// maxSafe is the largest integer that every JSON library represents exactly.
const maxSafe = 1<<53 - 1

func headerText(value any) (string, bool) {
	switch v := value.(type) {
	case string:
		return v, true
	case bool:
		return strconv.FormatBool(v), true
	case json.Number:
		f, err := v.Float64()
		n := int64(f)
		return strconv.FormatInt(n, 10), err == nil && float64(n) == f && -maxSafe <= n && n <= maxSafe
	}
	return "", false
}

// isToken reports whether s is a valid header name (RFC 9110, 5.6.2).
func isToken(s string) bool {
	for _, c := range s {
		letter := 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
		if !letter && !strings.ContainsRune("!#$%&'*+-.^_`|~", c) {
			return false
		}
	}
	return s != ""
}
