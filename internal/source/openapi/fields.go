package openapi

import (
	"maps"
	"strings"
)

// fieldSet is an object schema as a flat list of properties, with allOf merged.
// It is flat only if that loses nothing.
type fieldSet struct {
	flat       bool
	list       []field
	names      map[string]bool
	required   map[string]bool
	unwanted   map[string]bool // properties that were left out
	additional *Node
}

type field struct {
	name   string
	schema *Node
}

// maxAllOf limits the number of schemas that allOf may lead through.
const maxAllOf = 100

// fields flattens the schema at n.
func (i *importer) fields(n *Node) (*fieldSet, error) {
	set := &fieldSet{flat: true, names: map[string]bool{}, required: map[string]bool{}, unwanted: map[string]bool{}}
	visits := 0
	err := i.flatten(n, set, &visits)
	// Any of the schemas can require a property that another leaves out.
	maps.DeleteFunc(set.required, func(name string, _ bool) bool { return set.unwanted[name] && !set.names[name] })
	return set, err
}

func (i *importer) flatten(n *Node, set *fieldSet, visits *int) error {
	siblings := n.Has("$ref") && n.Len() > 1 && !i.requests.openAPI30
	n, err := i.set.Resolve(n)
	if err != nil {
		return err
	}
	if *visits++; *visits > maxAllOf || siblings || !isPlainObject(n) {
		set.flat = false
		return nil
	}
	for name, schema := range n.Get("properties").Members() {
		if err := i.requests.spend(); err != nil {
			return err
		}
		if i.requests.isUnwanted(schema) {
			set.unwanted[name] = true
			continue
		}
		if set.names[name] { // Both schemas hold, and only allOf can say that.
			set.flat = false
			return nil
		}
		set.list = append(set.list, field{name, schema})
		set.names[name] = true
	}
	for _, name := range n.Get("required").Texts() {
		set.required[name] = true
	}
	branches := n.Get("allOf").Items()
	if additional := n.Get("additionalProperties"); additional != nil && !additional.True() {
		// Next to other branches it applies to its own properties only.
		if len(branches) > 0 || *visits > 1 {
			set.flat = false
			return nil
		}
		set.additional = additional
	}
	for _, branch := range branches {
		if err := i.flatten(branch, set, visits); err != nil || !set.flat {
			return err
		}
	}
	return nil
}

// allFields returns the properties of a schema and of those that it combines, for the encoding
// of a form that cannot be a flat list. If several schemas have a property, the first counts.
func (i *importer) allFields(n *Node) (*fieldSet, error) {
	set := &fieldSet{names: map[string]bool{}}
	pending := []*Node{n}
	for visits := 0; len(pending) > 0 && visits < maxAllOf; visits++ {
		if err := i.requests.spend(); err != nil {
			return nil, err
		}
		n, err := i.set.Resolve(pending[0])
		if err != nil {
			return nil, err
		}
		pending = pending[1:]
		for name, schema := range n.Get("properties").Members() {
			if err := i.requests.spend(); err != nil {
				return nil, err
			}
			if !set.names[name] {
				set.list = append(set.list, field{name, schema})
				set.names[name] = true
			}
		}
		for _, name := range []string{"allOf", "anyOf", "oneOf"} {
			branches := n.Get(name).Items()
			pending = append(pending, branches[:min(len(branches), maxAllOf)]...)
		}
	}
	return set, nil
}

// flatKeywords are the keywords whose meaning a flat list preserves.
var flatKeywords = map[string]bool{
	"type": true, "properties": true, "required": true, "additionalProperties": true, "allOf": true,
	"title": true, "description": true, "example": true, "examples": true, "default": true, "deprecated": true,
	"nullable": true, "xml": true, "externalDocs": true, "discriminator": true, "readOnly": true, "writeOnly": true,
}

func isPlainObject(n *Node) bool {
	switch n.Get("type").Kind() {
	case KindNone:
		if !n.Has("properties") && !n.Has("allOf") {
			return false
		}
	case KindText:
		if n.Get("type").Text() != "object" {
			return false
		}
	default:
		return false
	}
	for name := range n.Members() {
		if !flatKeywords[name] && !strings.HasPrefix(name, "x-") {
			return false
		}
	}
	return true
}

// merges reports whether the fields can be added to the existing arguments.
func (s *fieldSet) merges(arguments map[string]any) bool {
	if !s.flat || len(s.list) == 0 {
		return false
	}
	for _, f := range s.list {
		if _, taken := arguments[f.name]; taken {
			return false
		}
	}
	// A required name without a property needs a place as well.
	for name := range s.required {
		if !s.names[name] {
			return false
		}
	}
	return true
}
