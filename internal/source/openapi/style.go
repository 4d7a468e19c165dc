package openapi

import (
	"cmp"
	"encoding/json"
	"errors"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/toolroom/toolroom/internal/source/httpcall"
)

// value is an argument prepared for the styles of parameters: a scalar, a list or an object
// of strings.
type value struct {
	kind  valueKind
	text  string
	list  []string
	pairs []pair // sorted by key
}

type valueKind int

const (
	scalar valueKind = iota
	list
	object
)

type pair struct{ key, value string }

// newValue decodes raw. It keeps values deeper than one level as JSON, because the styles do
// not define them.
func newValue(raw json.RawMessage) (value, error) {
	var elements []json.RawMessage
	var members map[string]json.RawMessage
	switch {
	case raw[0] == '[' && json.Unmarshal(raw, &elements) == nil:
		v := value{kind: list}
		for _, element := range elements {
			v.list = append(v.list, flatText(element))
		}
		return v, nil
	case raw[0] == '{' && json.Unmarshal(raw, &members) == nil:
		v := value{kind: object}
		for _, key := range slices.Sorted(maps.Keys(members)) {
			v.pairs = append(v.pairs, pair{key, flatText(members[key])})
		}
		return v, nil
	}
	text, ok := httpcall.ScalarText(raw)
	if !ok {
		return value{}, errors.New("it is not JSON")
	}
	return value{text: text}, nil
}

func flatText(raw json.RawMessage) string {
	if text, ok := httpcall.ScalarText(raw); ok {
		return text
	}
	return string(raw)
}

// joined returns v as one string: items separated by separator, keys and values by equals.
// It passes each piece through escape.
func (v value) joined(separator, equals string, escape func(string) (string, error)) (string, error) {
	var pieces []string
	put := func(text string) error {
		escaped, err := escape(text)
		pieces = append(pieces, escaped)
		return err
	}
	switch v.kind {
	case scalar:
		return escape(v.text)
	case list:
		for _, item := range v.list {
			if err := put(item); err != nil {
				return "", err
			}
		}
	case object:
		for _, p := range v.pairs {
			key, err := escape(p.key)
			if err != nil {
				return "", err
			}
			if err := put(p.value); err != nil {
				return "", err
			}
			last := len(pieces) - 1
			pieces[last] = key + equals + pieces[last]
		}
	}
	return strings.Join(pieces, separator), nil
}

// inPath writes the styles simple, label and matrix (OpenAPI 3.1, 4.8.12.2).
func (p parameter) inPath(v value) (string, error) {
	equals := ","
	if p.explode {
		equals = "="
	}
	switch {
	case v.kind == list && len(v.list) == 0, v.kind == object && len(v.pairs) == 0:
		return "", errors.New("it is empty, but a part of a path must not be")
	case p.style == "label":
		separator := ","
		if p.explode {
			separator = "."
		}
		text, err := v.joined(separator, equals, httpcall.PathSegment)
		return "." + text, err
	case p.style == "matrix" && p.explode && v.kind == object:
		text, err := v.joined(";", "=", httpcall.PathSegment)
		return ";" + text, err
	case p.style == "matrix" && p.explode:
		name := ";" + url.PathEscape(p.name) + "="
		text, err := v.joined(name, "=", httpcall.PathSegment)
		return name + text, err
	case p.style == "matrix":
		text, err := v.joined(",", ",", httpcall.PathSegment)
		return ";" + url.PathEscape(p.name) + "=" + text, err
	default:
		return v.joined(",", equals, httpcall.PathSegment)
	}
}

// inHeader writes the style simple.
func (p parameter) inHeader(v value) (string, error) {
	equals := ","
	if p.explode {
		equals = "="
	}
	return v.joined(",", equals, httpcall.HeaderValue)
}

// addTo writes the styles form, spaceDelimited, pipeDelimited and deepObject
// into a query, a form or cookies.
func addTo(values url.Values, name, style string, explode bool, v value) {
	switch {
	case v.kind == scalar:
		values.Add(name, v.text)
	case style == "deepObject" && v.kind == object:
		for _, p := range v.pairs {
			values.Add(name+"["+p.key+"]", p.value)
		}
	case explode && v.kind == list:
		for _, item := range v.list {
			values.Add(name, item)
		}
	case explode && v.kind == object:
		for _, p := range v.pairs {
			values.Add(p.key, p.value)
		}
	default:
		separator := cmp.Or(map[string]string{"spaceDelimited": " ", "pipeDelimited": "|"}[style], ",")
		text, _ := v.joined(separator, separator, func(s string) (string, error) { return s, nil })
		values.Add(name, text)
	}
}
