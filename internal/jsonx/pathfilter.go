package jsonx

import (
	"bytes"
	"math/big"
	"strconv"
	"strings"
)

// filterSelector selects the children for which a condition holds.
type filterSelector struct{ condition condition }

func (f filterSelector) apply(s *selection, v []byte, yield func([]byte) bool) bool {
	return s.children(v, func(_ []byte, start, end int) bool {
		child := v[start:end]
		holds := f.condition.holds(s, child)
		return s.err == nil && (!holds || yield(child))
	})
}

// condition is a logical expression about the current value, @.
type condition interface {
	holds(s *selection, current []byte) bool
}

type anyOf []condition

func (cs anyOf) holds(s *selection, current []byte) bool {
	for _, c := range cs {
		if s.err == nil && c.holds(s, current) {
			return true
		}
	}
	return false
}

type allOf []condition

func (cs allOf) holds(s *selection, current []byte) bool {
	for _, c := range cs {
		if s.err != nil || !c.holds(s, current) {
			return false
		}
	}
	return true
}

type not struct{ condition }

func (n not) holds(s *selection, current []byte) bool { return !n.condition.holds(s, current) }

// pathQuery is a path inside a condition, from @ or from $. As a condition it holds
// when it selects anything; as an operand it is the one value that it selects,
// or nil for none.
type pathQuery struct {
	absolute bool
	segments []segment
}

func (q pathQuery) holds(s *selection, current []byte) bool { return q.value(s, current) != nil }

func (q pathQuery) value(s *selection, current []byte) (found []byte) {
	from := current
	if q.absolute {
		from = s.root
	}
	s.work -= valueWork
	s.walk(from, q.segments, func(v []byte) bool {
		found = v
		return false
	})
	return found
}

// pathLiteral is a primitive JSON value.
type pathLiteral []byte

func (l pathLiteral) value(*selection, []byte) []byte { return l }

type operand interface {
	value(s *selection, current []byte) []byte
}

type comparison struct {
	left, right operand
	op          string
}

// holds compares as RFC 9535 section 2.3.5.2.2 says: values of different kinds
// are neither equal nor in order, and nothing equals nothing.
func (c comparison) holds(s *selection, current []byte) bool {
	left, right := c.left.value(s, current), c.right.value(s, current)
	s.work -= valueWork + len(left) + len(right)
	switch c.op {
	case "==":
		return s.equal(left, right)
	case "!=":
		return !s.equal(left, right)
	case "<":
		return less(left, right)
	case ">":
		return less(right, left)
	case "<=":
		return less(left, right) || s.equal(left, right)
	default: // ">="
		return less(right, left) || s.equal(left, right)
	}
}

func (s *selection) equal(a, b []byte) bool {
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	if valueKind(a) != valueKind(b) {
		return false
	}
	switch valueKind(a) {
	case '0':
		return compareNumbers(a, b) == 0
	case '"':
		return unquoted(a) == unquoted(b)
	case '[':
		return s.equalArrays(a, b)
	case '{':
		return s.equalObjects(a, b)
	default:
		return bytes.Equal(a, b)
	}
}

func (s *selection) equalArrays(a, b []byte) bool {
	left, _ := s.elements(a)
	right, _ := s.elements(b)
	if len(left) != len(right) {
		return false
	}
	for i := range left {
		if !s.equal(element(a, left[i]), element(b, right[i])) {
			return false
		}
	}
	return s.err == nil
}

func (s *selection) equalObjects(a, b []byte) bool {
	members := map[string][]byte{}
	s.children(b, func(key []byte, start, end int) bool {
		members[unquoted(key)] = b[start:end]
		return true
	})
	same := s.children(a, func(key []byte, start, end int) bool {
		name := unquoted(key)
		other, ok := members[name]
		delete(members, name)
		return ok && s.equal(a[start:end], other)
	})
	return same && len(members) == 0
}

func less(a, b []byte) bool {
	if a == nil || b == nil || valueKind(a) != valueKind(b) {
		return false
	}
	switch valueKind(a) {
	case '0':
		return compareNumbers(a, b) < 0
	case '"':
		return unquoted(a) < unquoted(b)
	default:
		return false
	}
}

// valueKind returns the first character of a value, '0' for every number.
func valueKind(v []byte) byte {
	if c := v[0]; c != '-' && (c < '0' || c > '9') {
		return c
	}
	return '0'
}

// compareNumbers compares integers exactly, and others as float64.
func compareNumbers(a, b []byte) int {
	if isInteger(a) && isInteger(b) {
		var x, y big.Int
		x.SetString(string(a), 10)
		y.SetString(string(b), 10)
		return x.Cmp(&y)
	}
	// A number out of range becomes an infinity, which compares correctly.
	x, _ := strconv.ParseFloat(string(a), 64)
	y, _ := strconv.ParseFloat(string(b), 64)
	switch {
	case x < y:
		return -1
	case x > y:
		return 1
	default:
		return 0
	}
}

// maxInteger bounds the length of integers for big.Int, whose parsing is not linear.
const maxInteger = 1000

func isInteger(number []byte) bool {
	return len(number) <= maxInteger && !strings.ContainsAny(string(number), ".eE")
}
