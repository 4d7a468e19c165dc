package schema

import (
	"bytes"
	"cmp"
	"math/big"
	"strconv"
)

// A number is one that the matcher can compare exactly.
type number struct {
	integer   int64
	isInteger bool    // written as an integer that fits 64 bits
	nearest   float64 // the float64 nearest to it
}

// readNumber reports false for a number that is left to the checker: one with an
// exponent, or a very long one.
func readNumber(text []byte) (number, bool) {
	if len(text) > maxNumber || bytes.ContainsAny(text, "eE") {
		return number{}, false
	}
	if integer, err := strconv.ParseInt(string(text), 10, 64); err == nil {
		return number{integer: integer, isInteger: true, nearest: float64(integer)}, true
	}
	nearest, err := strconv.ParseFloat(string(text), 64)
	return number{nearest: nearest}, err == nil
}

// newNumber is readNumber for a number of the schema.
func newNumber(r *big.Rat) number {
	n := number{}
	n.nearest, _ = r.Float64()
	if r.IsInt() && r.Num().IsInt64() {
		n.integer, n.isInteger = r.Num().Int64(), true
	}
	return n
}

// compare orders two numbers. Rounding to float64 keeps the order, so that
// unequal float64 values settle it; for equal ones it reports false.
func (n number) compare(other number) (order int, certain bool) {
	if n.isInteger && other.isInteger {
		return cmp.Compare(n.integer, other.integer), true
	}
	order = cmp.Compare(n.nearest, other.nearest)
	return order, order != 0
}

// numberRules hold the bounds of a number; those that are nil do not apply.
type numberRules struct {
	minimum, maximum, above, below *number
	multipleOf                     int64
}

func (rules *numberRules) match(n number) bool {
	if rules.multipleOf != 0 && !(n.isInteger && n.integer%rules.multipleOf == 0) {
		return false
	}
	return within(n, rules.minimum, +1, true) && within(n, rules.maximum, -1, true) &&
		within(n, rules.above, +1, false) && within(n, rules.below, -1, false)
}

// within reports whether n lies for certain on the wanted side of a bound.
func within(n number, bound *number, side int, orEqual bool) bool {
	if bound == nil {
		return true
	}
	order, certain := n.compare(*bound)
	return certain && (order == side || orEqual && order == 0)
}
