package schema

import (
	"cmp"
	"encoding/json"
	"maps"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
	"github.com/toolroom/toolroom/internal/nearest"
)

// maxRepairRounds is how often a document is checked and repaired: each round can
// bring up problems below what the one before has fixed.
const maxRepairRounds = 8

// maxRepairWork bounds the work of one repair, which begins again with each refused call: the
// names and values that are compared. Each takes a microsecond or two.
const maxRepairWork = 100_000

// maxRepairValues is how many values a document may hold to be fixed.
const maxRepairValues = 2_000

// Repair derives a valid document from one that s refuses, to show to the
// caller as an example: values take the type that is asked for ("3" becomes 3, a
// string becomes a list of it, JSON in a string becomes what it says), misspelt
// names are corrected, unknown ones dropped, missing ones filled in as in
// [Schema.Example], numbers moved into their bounds. The names whose values are
// dropped are returned, sorted, as JSON pointers without the first slash. It reports
// false if the result is not valid, or too long to show (8 KiB). The document is left as it is.
func Repair(s *Schema, document any) (repaired json.RawMessage, dropped []string, ok bool) {
	if findExcesses(document, 0) != nil || countValues(document) > maxRepairValues {
		return nil, nil, false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.checker.repair(clone(document))
}

func countValues(value any) int {
	n := 1
	switch value := value.(type) {
	case map[string]any:
		for _, member := range value {
			n += countValues(member)
		}
	case []any:
		for _, item := range value {
			n += countValues(item)
		}
	}
	return n
}

// repair changes a document, which it owns, until the checker finds nothing wrong.
func (c *checker) repair(document any) (repaired json.RawMessage, dropped []string, ok bool) {
	work := maxRepairWork
	for range maxRepairRounds {
		leaves, err := c.check(document)
		if err != nil {
			return nil, nil, false
		}
		if len(leaves) == 0 {
			repaired, ok = encodeExample(document)
			slices.Sort(dropped)
			return repaired, dropped, ok
		}
		slices.SortStableFunc(leaves, func(a, b leaf) int {
			return cmp.Or(cmp.Compare(a.repairOrder(), b.repairOrder()), comparePaths(a.path, b.path))
		})
		m := repairer{checker: c, filler: newFiller(), document: document, missing: map[string]int{}, dropped: map[string]map[string]any{}}
		for _, l := range leaves {
			if _, ok := l.cause.(missing); ok && len(l.path) > 0 {
				m.missing[pointerTo(l.path[:len(l.path)-1])]++
			}
		}
		for _, l := range leaves {
			if work -= m.cost(l); work < 0 {
				return nil, nil, false
			}
			m.fix(l)
		}
		for at, values := range m.dropped {
			for name := range values {
				dropped = append(dropped, strings.TrimPrefix(at+pointerTo([]string{name}), "/"))
			}
		}
		document = m.document
	}
	return nil, nil, false
}

// repairOrder orders the repairs: first names, since a misspelt one may be the one
// that is missing; last what is to be filled in.
func (l leaf) repairOrder() int {
	switch l.cause.(type) {
	case unknown:
		return 0
	case missing:
		return 2
	default:
		return 1
	}
}

// A repairer changes a document, one leaf at a time.
type repairer struct {
	checker  *checker
	filler   *filler
	document any
	// How many properties an object lacks, and those that were dropped from it, by its path.
	missing map[string]int
	dropped map[string]map[string]any
}

// cost is how much work it is to mend a leaf: names are compared with all those that are known,
// and values with all those of an enum.
func (m *repairer) cost(l leaf) int {
	n := 1
	for _, owner := range inPlaceSchemas(m.checker.byLocation[l.schema]) {
		n += len(owner.Properties)
	}
	switch c := l.cause.(type) {
	case missing:
		object, _ := lookup(m.document, l.path[:max(len(l.path), 1)-1])
		members, _ := object.(map[string]any)
		n += len(members)
	case *kind.Enum:
		n += len(c.Want)
	}
	return n
}

func (m *repairer) fix(l leaf) {
	owner := m.checker.byLocation[l.schema]
	if len(l.path) > 0 {
		holder, _ := lookup(m.document, l.path[:len(l.path)-1])
		object, _ := holder.(map[string]any)
		name := l.path[len(l.path)-1]
		at := pointerTo(l.path[:len(l.path)-1])
		switch c := l.cause.(type) {
		case unknown:
			if value, there := object[name]; there && !rename(object, name, owner) {
				if m.dropped[at] == nil {
					m.dropped[at] = map[string]any{}
				}
				m.dropped[at][name] = value
			}
			return
		case missing:
			m.addMissing(object, at, c.name, owner)
			return
		case *kind.FalseSchema:
			delete(object, name)
			return
		}
		if l.nameAtFault {
			delete(object, name)
			return
		}
	}
	value, found := lookup(m.document, l.path)
	if !found {
		return // an earlier leaf has moved it
	}
	if fixed, ok := m.fixValue(value, l.cause, owner); ok {
		m.document = replace(m.document, l.path, fixed)
	}
}

// rename gives a misspelt property its name. It drops one that means no other, and reports false.
func rename(object map[string]any, name string, owner *jsonschema.Schema) bool {
	value := object[name]
	delete(object, name)
	meant, ok := intendedProperty(name, value, propertyNames(owner), owner)
	if !ok {
		return false
	}
	if _, taken := object[meant]; !taken {
		object[meant] = value
	}
	return true
}

// addMissing adds a missing property: with the value under its misspelt name if there is one, or with
// that of another name, if one value was dropped, one is missing, and its type takes it: many
// callers say pattern for query, or file_path for path.
func (m *repairer) addMissing(object map[string]any, at, name string, owner *jsonschema.Schema) {
	if _, there := object[name]; there || object == nil {
		return
	}
	known := propertyNames(owner)
	for _, other := range slices.Sorted(maps.Keys(object)) {
		if _, near := nearest.Of(other, []string{name}); near && !slices.Contains(known, other) {
			object[name] = object[other]
			delete(object, other)
			return
		}
	}
	property := propertySchema(owner, name)
	if dropped := m.dropped[at]; len(dropped) == 1 && m.missing[at] == 1 {
		for other, value := range dropped {
			if isPlainType(property, value) {
				object[name] = value
				delete(dropped, other)
				return
			}
		}
	}
	object[name] = m.filler.fill(property, name)
}

// isPlainType reports whether a schema asks for the type of a value, and permits neither few values
// nor one form of a text.
func isPlainType(s *jsonschema.Schema, value any) bool {
	if s == nil || s.Types == nil || s.Enum != nil || s.Const != nil || s.Pattern != nil {
		return false
	}
	kind := typeOfContainer(value)
	switch value.(type) {
	case string:
		kind = "string"
	case bool:
		kind = "boolean"
	}
	return kind != "" && slices.Contains(s.Types.ToStrings(), kind)
}

// fixValue returns what to put in the place of a value.
func (m *repairer) fixValue(value any, c cause, s *jsonschema.Schema) (any, bool) {
	switch c := c.(type) {
	case *kind.Type:
		if fixed, ok := coerce(value, c.Want); ok {
			return fixed, true
		}
		return m.filler.fill(s, ""), s != nil
	case *kind.Const:
		return clone(c.Want), true
	case *kind.Enum:
		return nearestValue(value, c.Want)
	case *kind.Format, *kind.Pattern:
		return m.filler.fill(s, ""), s != nil
	case *kind.UniqueItems:
		return removeItems(value, c.Duplicates[1], 1)
	case *kind.AdditionalItems:
		items, _ := value.([]any)
		return removeItems(value, len(items)-c.Count, c.Count)
	}
	if s == nil {
		return nil, false
	}
	switch value := value.(type) {
	case string:
		return fixLength(value, s), true
	case json.Number:
		number, ok := new(big.Rat).SetString(string(value))
		if !ok {
			return nil, false
		}
		return jsonNumber(moveIntoBounds(number, s)), true
	case []any:
		return m.fixItems(value, s), true
	default:
		return nil, false
	}
}

// removeItems cuts n items out of an array. It reports false if they are not there
// any more, because the array has been changed before.
func removeItems(value any, i, n int) (any, bool) {
	items, ok := value.([]any)
	if !ok || i < 0 || i+n > len(items) {
		return nil, false
	}
	return slices.Delete(slices.Clone(items), i, i+n), true
}

func fixLength(text string, s *jsonschema.Schema) string {
	if s.MinLength != nil {
		text = pad(text, *s.MinLength)
	}
	if s.MaxLength != nil {
		text = cutRunes(text, *s.MaxLength)
	}
	return text
}

func (m *repairer) fixItems(items []any, s *jsonschema.Schema) []any {
	if s.MaxItems != nil && len(items) > *s.MaxItems {
		items = items[:*s.MaxItems]
	}
	for s.MinItems != nil && len(items) < *s.MinItems && m.filler.values > 0 {
		items = append(items, m.filler.fill(elementSchema(s, len(items)), ""))
	}
	if s.Contains != nil {
		items = append(items, m.filler.fill(s.Contains, ""))
	}
	return items
}

// replace puts a value in a document at a path that exists.
func replace(document any, path []string, value any) any {
	if len(path) == 0 {
		return value
	}
	last := len(path) - 1
	holder, _ := lookup(document, path[:last])
	switch holder := holder.(type) {
	case map[string]any:
		holder[path[last]] = value
	case []any:
		if i, err := strconv.Atoi(path[last]); err == nil && i >= 0 && i < len(holder) {
			holder[i] = value
		}
	}
	return document
}
