package effects

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Amount is how much a call spends, in millionths of a unit such as EUR or tokens.
// Unit is empty for an amount without a unit.
type Amount struct {
	Micros int64
	Unit   string
}

const (
	microsPerUnit = 1_000_000
	maxWhole      = 9_000_000_000_000 // the largest that fits into Micros
	maxUnit       = 16
)

// ParseAmount parses an amount such as "12.50 EUR" or "3". It returns false for anything
// that is not plainly an amount, such as one with a sign or an exponent.
func ParseAmount(text string) (Amount, bool) {
	number, unit, _ := strings.Cut(strings.TrimSpace(text), " ")
	unit = strings.TrimSpace(unit)
	whole, part, _ := strings.Cut(number, ".")
	if !isDigits(whole) || len(whole) == 0 || len(part) > 18 || !isDigits(part) || len(unit) > maxUnit || strings.Trim(strings.ToUpper(unit), "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") != "" {
		return Amount{}, false
	}
	n, err := strconv.ParseInt(whole, 10, 64)
	if err != nil || n > maxWhole {
		return Amount{}, false
	}
	micros := n * microsPerUnit
	padded := part + "000000"
	fraction, _ := strconv.ParseInt(padded[:6], 10, 64) // six digits
	if strings.Trim(padded[6:], "0") != "" {
		fraction++ // round up
	}
	return Amount{micros + fraction, strings.ToUpper(unit)}, true
}

// AddMicros adds two amounts, neither of which is negative. If the sum overflows, it returns
// the largest int64: a sum that wrapped around would pass every limit.
func AddMicros(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

func isDigits(text string) bool { return strings.Trim(text, "0123456789") == "" }

// String returns the amount in the form that rules compare.
func (a Amount) String() string {
	number := strconv.FormatInt(a.Micros/microsPerUnit, 10)
	if part := a.Micros % microsPerUnit; part != 0 {
		number += strings.TrimRight(fmt.Sprintf(".%06d", part), "0")
	}
	if a.Unit == "" {
		return number
	}
	return number + " " + a.Unit
}
