package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v4"
)

// maxJSONDepth limits the nesting of schemas and bodies.
const maxJSONDepth = 100

// encodeJSON encodes a YAML tree as JSON. It preserves the order of keys and the form of numbers.
func (d *decoder) encodeJSON(n *yaml.Node, path string, depth int) ([]byte, bool) {
	if !d.rejectUnsupported(n, path) {
		return nil, false
	}
	if depth > maxJSONDepth {
		d.add(positionOf(n), path, fmt.Sprintf("it is nested deeper than %d", maxJSONDepth), "")
		return nil, false
	}
	switch n.Kind {
	case yaml.MappingNode:
		return d.encodeJSONObject(n, path, depth)
	case yaml.SequenceNode:
		return d.encodeJSONList(n, path, depth)
	}
	text, ok := encodeJSONScalar(n)
	if !ok {
		d.add(positionOf(n), path, quote(n.Value)+" is not a value of JSON", "quote it to make it a text")
	}
	return text, ok
}

func (d *decoder) encodeJSONObject(n *yaml.Node, path string, depth int) ([]byte, bool) {
	var out bytes.Buffer
	ok := true
	out.WriteByte('{')
	d.eachPair(n, path, func(key, value *yaml.Node, _ string) {
		text, good := d.encodeJSON(value, path, depth+1)
		ok = ok && good
		if out.Len() > 1 {
			out.WriteByte(',')
		}
		out.Write(encodeJSONString(key.Value))
		out.WriteByte(':')
		out.Write(text)
	})
	out.WriteByte('}')
	return out.Bytes(), ok
}

func (d *decoder) encodeJSONList(n *yaml.Node, path string, depth int) ([]byte, bool) {
	var out bytes.Buffer
	ok := true
	out.WriteByte('[')
	for i, item := range n.Content {
		text, good := d.encodeJSON(item, path, depth+1)
		ok = ok && good
		if i > 0 {
			out.WriteByte(',')
		}
		out.Write(text)
	}
	out.WriteByte(']')
	return out.Bytes(), ok
}

func encodeJSONScalar(n *yaml.Node) ([]byte, bool) {
	switch n.Tag {
	case "!!null":
		return []byte("null"), true
	case "!!bool":
		return []byte(strings.ToLower(n.Value)), true
	case "!!int", "!!float":
		return encodeJSONNumber(n.Value)
	default:
		return encodeJSONString(n.Value), true
	}
}

func encodeJSONNumber(text string) ([]byte, bool) {
	if json.Valid([]byte(text)) {
		return []byte(text), true
	}
	// These are numbers only in YAML: 0x1F, 0o17, +5, 1_000, .5.
	if i, ok := new(big.Int).SetString(text, 0); ok {
		return []byte(i.String()), true
	}
	f, err := strconv.ParseFloat(strings.ReplaceAll(text, "_", ""), 64)
	if err != nil || math.IsInf(f, 0) || math.IsNaN(f) {
		return nil, false
	}
	out, err := json.Marshal(f)
	return out, err == nil
}

func encodeJSONString(s string) []byte {
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	_ = e.Encode(s) // encoding a string cannot fail
	return bytes.TrimSuffix(out.Bytes(), []byte("\n"))
}
