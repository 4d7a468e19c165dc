package schema

import (
	"regexp"
	"unicode/utf8"

	"github.com/toolroom/toolroom/internal/jsonx"
)

// A matcher settles the common case fast: it reads the text of a document token
// by token and says yes only if the checker would find nothing. It knows the part
// of JSON Schema that most tools use, each keyword exactly, and gives up on
// everything else; see newMatcher. Its work is linear in the document, because
// each value is matched by one matcher only.
type matcher struct {
	kinds kindSet
	// byKind, if set, stands for an anyOf whose branches take different kinds:
	// the kind of the value alone says which of them it must match.
	byKind map[jsonx.Kind]*matcher

	text   *textRules
	number *numberRules
	values *valueSet // enum or const, nil if any value will do

	properties map[string]property
	required   int      // how many of properties are
	additional *matcher // nil means that no other properties may be there

	items              *matcher
	minItems, maxItems int
}

// kindSet says which kinds of values match.
type kindSet struct {
	null, boolean, text, number, integer, object, array bool
}

// A property is a member that is declared, required, or both.
type property struct {
	value    *matcher
	required bool
}

type textRules struct {
	minLength, maxLength int
	pattern              *regexp.Regexp
	patternSize          int
	format               func(any) error
}

// valueSet holds the scalar values of an enum. Others are left to the checker.
type valueSet struct {
	texts         map[string]bool
	integers      map[int64]bool
	null, yes, no bool
}

// maxMatchCost is what all patterns and formats together may cost, in steps;
// beyond it the checker decides, because it counts all work.
const maxMatchCost = 100_000

// A documentReader reads one document for a match.
type documentReader struct {
	*jsonx.Reader
	cost int
}

func (m *matcher) accepts(document []byte) bool {
	r := documentReader{Reader: jsonx.NewReader(document, jsonx.Limits{})}
	if !m.match(&r) {
		r.Abandon()
		return false
	}
	return r.Finish() == nil
}

// match reads the next value. What follows a mismatch need not be read.
func (m *matcher) match(r *documentReader) bool {
	kind := r.Peek()
	if m.byKind != nil {
		if m = m.byKind[kind]; m == nil {
			return false
		}
	}
	switch kind {
	case jsonx.Object:
		return m.kinds.object && m.matchObject(r)
	case jsonx.Array:
		return m.kinds.array && m.matchArray(r)
	case jsonx.String:
		text := r.Text()
		return m.kinds.text && (m.values == nil || m.values.texts[string(text)]) && (m.text == nil || m.text.match(text, r))
	case jsonx.Number:
		return m.matchNumber(r.Number())
	case jsonx.True:
		r.Skip()
		return m.kinds.boolean && (m.values == nil || m.values.yes)
	case jsonx.False:
		r.Skip()
		return m.kinds.boolean && (m.values == nil || m.values.no)
	default:
		r.Skip()
		return m.kinds.null && (m.values == nil || m.values.null)
	}
}

func (m *matcher) matchObject(r *documentReader) bool {
	if m.values != nil {
		return false
	}
	found := 0
	for r.Enter(); r.More(); {
		property, declared := m.properties[string(r.Text())]
		value := property.value
		if !declared {
			value = m.additional
		}
		if value == nil || !value.match(r) {
			return false
		}
		if property.required {
			found++ // a second time is refused as a duplicate key
		}
	}
	r.Leave()
	return found == m.required
}

func (m *matcher) matchArray(r *documentReader) bool {
	if m.values != nil {
		return false
	}
	n := 0
	for r.Enter(); r.More(); n++ {
		if !m.items.match(r) {
			return false
		}
	}
	r.Leave()
	return n >= m.minItems && n <= m.maxItems
}

func (m *matcher) matchNumber(text []byte) bool {
	n, ok := readNumber(text)
	switch {
	case !ok, !m.kinds.number && !(m.kinds.integer && n.isInteger):
		return false
	case m.values != nil && !(n.isInteger && m.values.integers[n.integer]):
		return false
	default:
		return m.number == nil || m.number.match(n)
	}
}

func (t *textRules) match(text []byte, r *documentReader) bool {
	if t.minLength > 0 || t.maxLength < len(text) {
		if n := utf8.RuneCount(text); n < t.minLength || n > t.maxLength {
			return false
		}
	}
	if t.pattern != nil {
		if r.cost += matchCost(t.patternSize, len(text)); r.cost > maxMatchCost || !t.pattern.Match(text) {
			return false
		}
	}
	if t.format != nil {
		value := string(text)
		if r.cost += formatCost(value); r.cost > maxMatchCost || t.format(value) != nil {
			return false
		}
	}
	return true
}
