package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"reflect"
	"strings"
	"time"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"
)

// decoder decodes a YAML tree into Go values and records every mistake with its position.
// yaml's own decoder knows the position of only a few.
type decoder struct {
	problems
	// positions are the positions of the keys that are in the file.
	positions map[string]position
}

// maxNumber is the largest whole number. A size plus one must not overflow.
const maxNumber int64 = math.MaxInt64 - 1

// maxKey is the maximum length of a key, in bytes.
const maxKey = 256

func valueOf(c *Config) reflect.Value { return reflect.ValueOf(c).Elem() }

// parse returns the root of the tree, or nil if the text is empty or not YAML.
func (d *decoder) parse(data []byte) *yaml.Node {
	top := position{1, 1}
	if len(data) > MaxFile {
		d.add(top, "", fmt.Sprintf("the file has more than %d bytes", MaxFile), "")
		return nil
	}
	if !utf8.Valid(data) {
		d.add(firstInvalid(data), "", "the text is not UTF-8", "save the file as UTF-8")
		return nil
	}
	loader, err := yaml.NewLoader(bytes.NewReader(data))
	if err != nil {
		d.addSyntaxError(err)
		return nil
	}
	var document, second yaml.Node
	if err := loader.Load(&document); errors.Is(err, io.EOF) {
		return nil
	} else if err != nil {
		d.addSyntaxError(err)
		return nil
	}
	if err := loader.Load(&second); err == nil {
		d.add(positionOf(&second), "", "a second document begins", "remove the line ---")
	} else if !errors.Is(err, io.EOF) {
		d.addSyntaxError(err)
	}
	if len(document.Content) == 0 {
		return nil
	}
	return document.Content[0]
}

func firstInvalid(data []byte) position {
	at := position{1, 1}
	for len(data) > 0 {
		r, n := utf8.DecodeRune(data)
		switch {
		case r == utf8.RuneError && n == 1:
			return at
		case r == '\n':
			at = position{at.line + 1, 1}
		default:
			at.column++
		}
		data = data[n:]
	}
	return at
}

// locateMistake returns a hint in which lines to look for the mistake that the YAML parser noticed
// at line, and for what. The parser often notices a mistake only after its position.
func locateMistake(reason string, line int) string {
	lines := fmt.Sprintf("line %d", line)
	if line > 1 {
		lines = fmt.Sprintf("lines %d and %d", line-1, line)
	}
	switch {
	case strings.Contains(reason, "cannot start any token"):
		return fmt.Sprintf("look at line %d: indent with spaces, not tabs, and quote a value that begins with @ or `", line)
	case strings.Contains(reason, "mapping values are not allowed"):
		return "look at " + lines + `: quote a value that has ": " in it, give the keys of one block the same indentation, and close each bracket`
	case strings.Contains(reason, "',' or"):
		return "look at " + lines + ": put commas between the values in brackets, and close each bracket"
	case strings.Contains(reason, "end of stream"), strings.Contains(reason, "node content"):
		return "look at line " + fmt.Sprint(line) + " and above it: close each quote and bracket"
	}
	return "look at " + lines + ": give the keys of one block the same indentation, and close each quote and bracket"
}

func (d *decoder) addSyntaxError(err error) {
	at, reason := position{1, 1}, err.Error()
	if e, ok := errors.AsType[*yaml.LoadError](err); ok {
		reason = e.Message
		if e.Mark.Line > 0 {
			at = position{e.Mark.Line, e.Mark.Column}
		}
	}
	d.add(at, "", "not YAML: "+reason, locateMistake(reason, at.line))
}

// decode decodes n into v, which must be settable.
func (d *decoder) decode(n *yaml.Node, v reflect.Value, path string) {
	if d.full() || !d.rejectUnsupported(n, path) {
		return
	}
	switch v.Interface().(type) {
	case time.Duration:
		d.decodeDuration(n, v, path)
		return
	case JSON:
		if isNull(n) {
			return
		}
		if text, ok := d.encodeJSON(n, path, 0); ok {
			v.SetBytes(text)
		}
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		d.decode(n, v.Elem(), path)
	case reflect.Struct:
		d.decodeStruct(n, v, path)
	case reflect.Map:
		d.decodeMap(n, v, path)
	case reflect.Slice:
		d.decodeList(n, v, path)
	case reflect.Interface:
		d.decodeAny(n, v, path)
	default:
		d.decodeScalar(n, v, path)
	}
}

// decodeAny decodes whatever JSON can say. Whole numbers stay exact.
func (d *decoder) decodeAny(n *yaml.Node, v reflect.Value, path string) {
	text, ok := d.encodeJSON(n, path, 0)
	if !ok {
		return
	}
	in := json.NewDecoder(bytes.NewReader(text))
	in.UseNumber()
	var value any
	_ = in.Decode(&value) // text is JSON
	value, err := withNumbers(value)
	if err != nil {
		d.add(positionOf(n), path, err.Error(), "quote it to make it a text")
	} else if value != nil {
		v.Set(reflect.ValueOf(value))
	}
}

// withNumbers replaces each number in a value by an int64 or float64.
func withNumbers(value any) (_ any, err error) {
	switch value := value.(type) {
	case json.Number:
		var number any
		if strings.ContainsAny(value.String(), ".eE") {
			number, err = value.Float64()
		} else {
			number, err = value.Int64()
		}
		if err != nil {
			return nil, fmt.Errorf("the number %s is too large", value)
		}
		return number, nil
	case []any:
		for i := range value {
			if value[i], err = withNumbers(value[i]); err != nil {
				return nil, err
			}
		}
	case map[string]any:
		for key := range value {
			if value[key], err = withNumbers(value[key]); err != nil {
				return nil, err
			}
		}
	}
	return value, nil
}

// rejectUnsupported rejects YAML features that a config does not need. Aliases are rejected because
// nested ones make a small file expand to a huge one.
func (d *decoder) rejectUnsupported(n *yaml.Node, path string) bool {
	switch {
	case n.Kind == yaml.AliasNode:
		d.add(positionOf(n), path, "aliases are not supported", "repeat the value")
	case n.Style&yaml.TaggedStyle != 0:
		d.add(positionOf(n), path, "tags such as "+n.ShortTag()+" are not supported", "remove it")
	default:
		return true
	}
	return false
}

func (d *decoder) decodeStruct(n *yaml.Node, v reflect.Value, path string) {
	fields := map[string]reflect.Value{}
	known := fieldsOf(v, fields)
	d.eachPair(n, path, func(key, value *yaml.Node, at string) {
		field, ok := fields[key.Value]
		if !ok {
			d.add(positionOf(key), at, "unknown key", didYouMean(key.Value, known))
			return
		}
		if value.Kind == yaml.ScalarNode && isNull(value) && !mayBeEmpty(field) {
			d.add(positionOf(key), at, "it has no value", "remove the key to use its default")
			return
		}
		d.recordPosition(key, value, at)
		d.decode(value, field, at)
	})
}

// fieldsOf collects the fields of a struct by key, and the keys in order.
func fieldsOf(v reflect.Value, fields map[string]reflect.Value) (known []string) {
	for i := range v.NumField() {
		name, options, _ := strings.Cut(v.Type().Field(i).Tag.Get("yaml"), ",")
		switch {
		case options == "inline":
			known = append(known, fieldsOf(v.Field(i), fields)...)
		case name != "":
			fields[name] = v.Field(i)
			known = append(known, name)
		}
	}
	return known
}

func (d *decoder) decodeMap(n *yaml.Node, v reflect.Value, path string) {
	if isNull(n) {
		return
	}
	v.Set(reflect.MakeMap(v.Type()))
	d.eachPair(n, path, func(key, value *yaml.Node, at string) {
		element := reflect.New(v.Type().Elem()).Elem()
		if value.Kind == yaml.ScalarNode && isNull(value) && !mayBeEmpty(element) {
			d.add(positionOf(key), at, "it has no value", `for an empty text write ""`)
			return
		}
		d.recordPosition(key, value, at)
		d.decode(value, element, at)
		v.SetMapIndex(reflect.ValueOf(key.Value), element)
	})
}

// eachPair calls f for every valid key and its value.
func (d *decoder) eachPair(n *yaml.Node, path string, f func(key, value *yaml.Node, at string)) {
	if isNull(n) {
		return
	}
	if n.Kind != yaml.MappingNode {
		d.add(positionOf(n), path, "want keys and values, got "+kindOf(n), "")
		return
	}
	seen := make(map[string]int, len(n.Content)/2)
	for i := 0; i+1 < len(n.Content) && !d.full(); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		if key.Kind != yaml.ScalarNode {
			d.add(positionOf(key), path, "a key must be plain text, got "+kindOf(key), "")
			continue
		}
		if len(key.Value) > maxKey {
			d.add(positionOf(key), path, fmt.Sprintf("the key %s has more than %d bytes", quote(key.Value), maxKey), "")
			continue
		}
		at := join(path, key.Value)
		if key.Tag == "!!merge" {
			d.add(positionOf(key), at, "merge keys are not supported", "repeat the keys")
			continue
		}
		if line, ok := seen[key.Value]; ok {
			d.add(positionOf(key), at, fmt.Sprintf("duplicate key, first in line %d", line), "remove one")
			continue
		}
		seen[key.Value] = key.Line
		f(key, value, at)
	}
}

// recordPosition records the position of a key for later checks.
func (d *decoder) recordPosition(key, value *yaml.Node, at string) {
	d.positions[at] = positionOf(key)
	if value.Kind == yaml.ScalarNode && !isNull(value) {
		d.positions[at] = positionOf(value)
	}
}

func (d *decoder) decodeList(n *yaml.Node, v reflect.Value, path string) {
	if isNull(n) {
		return
	}
	if n.Kind != yaml.SequenceNode {
		hint := ""
		if n.Kind == yaml.ScalarNode {
			hint = fmt.Sprintf("write [%s]", quote(n.Value))
		}
		d.add(positionOf(n), path, "want a list, got "+kindOf(n), hint)
		return
	}
	for i, item := range n.Content {
		at := fmt.Sprintf("%s[%d]", path, i)
		d.positions[at] = positionOf(item)
		element := reflect.New(v.Type().Elem()).Elem()
		if isNull(item) {
			d.add(positionOf(item), at, "it has no value", "remove the item")
		} else {
			d.decode(item, element, at)
		}
		v.Set(reflect.Append(v, element))
	}
}

func (d *decoder) decodeDuration(n *yaml.Node, v reflect.Value, path string) {
	const hint = "for example 500ms, 30s, 5m or 1h30m"
	if n.Kind != yaml.ScalarNode {
		d.add(positionOf(n), path, "want a duration, got "+kindOf(n), hint)
		return
	}
	duration, err := time.ParseDuration(n.Value)
	switch {
	case err != nil && n.Tag == "!!int":
		d.add(positionOf(n), path, fmt.Sprintf("the duration %s has no unit", quote(n.Value)), hint)
	case err != nil:
		d.add(positionOf(n), path, quote(n.Value)+" is not a duration", hint)
	case duration < 0:
		d.add(positionOf(n), path, fmt.Sprintf("the duration %s is negative", quote(n.Value)), hint)
	default:
		v.SetInt(int64(duration))
	}
}

func (d *decoder) decodeScalar(n *yaml.Node, v reflect.Value, path string) {
	wrong := func(want, hint string) {
		got := kindOf(n)
		if n.Kind == yaml.ScalarNode {
			got = quote(n.Value)
		}
		d.add(positionOf(n), path, "want "+want+", got "+got, hint)
	}
	switch v.Kind() {
	case reflect.String:
		// Any scalar is taken as it is written: version numbers, ports and switches are
		// strings in a program's environment.
		if n.Kind != yaml.ScalarNode {
			wrong("a text", "")
			return
		}
		v.SetString(n.Value)
	case reflect.Bool:
		var b bool
		if n.Kind != yaml.ScalarNode || n.Tag != "!!bool" || n.Decode(&b) != nil {
			wrong("true or false", "")
			return
		}
		v.SetBool(b)
	case reflect.Int, reflect.Int64:
		var i int64
		if n.Kind != yaml.ScalarNode || n.Tag != "!!int" || n.Decode(&i) != nil || v.OverflowInt(i) {
			wrong("a whole number", "")
			return
		}
		if i < 0 {
			d.add(positionOf(n), path, fmt.Sprintf("%d is negative", i), "")
			return
		}
		if i > maxNumber {
			d.add(positionOf(n), path, fmt.Sprintf("%d is too large", i), fmt.Sprintf("the most is %d", maxNumber))
			return
		}
		v.SetInt(i)
	case reflect.Float64:
		var f float64
		number := n.Kind == yaml.ScalarNode && (n.Tag == "!!int" || n.Tag == "!!float")
		if !number || n.Decode(&f) != nil || math.IsInf(f, 0) || math.IsNaN(f) {
			wrong("a number", "")
			return
		}
		if f < 0 {
			d.add(positionOf(n), path, fmt.Sprintf("%g is negative", f), "")
			return
		}
		v.SetFloat(f)
	}
}

// mayBeEmpty reports whether a key of this type may have no value: a section may contain
// only comments.
func mayBeEmpty(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Struct, reflect.Map, reflect.Slice:
		return true
	case reflect.Pointer:
		return v.Type().Elem().Kind() == reflect.Struct
	default:
		return false
	}
}

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.Tag == "!!null" }

func kindOf(n *yaml.Node) string {
	switch {
	case n.Kind == yaml.SequenceNode:
		return "a list"
	case n.Kind == yaml.MappingNode:
		return "keys and values"
	case n.Kind == yaml.AliasNode:
		return "an alias"
	case isNull(n):
		return "nothing"
	default:
		return "the text " + quote(n.Value)
	}
}

func positionOf(n *yaml.Node) position { return position{max(n.Line, 1), max(n.Column, 1)} }

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}
