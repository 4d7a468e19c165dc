package jsonx

import (
	"bytes"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
)

// Canonical returns the one byte form of the document in data: members sorted,
// no white space, shortest escapes, all as RFC 8785 says. Documents that mean
// the same have the same form, so that a hash of it identifies the value.
//
// Only numbers differ from RFC 8785, which rounds them to float64. Here every
// digit counts. A number is its significant digits, without zeros at either
// end, times a power of ten. A whole number is written out unless more than 20
// zeros end it; a fraction is written out unless six or more zeros follow its
// point; the rest is in the form 1.5e+30 or 1.5e-7. Zero is 0, whatever its sign.
// So 1.0, 1e0 and 10e-1 are all 1, while 9007199254740993 keeps its last digit.
//
// The default [Limits] apply; a number beyond 1e+1000000, or as close to zero as
// 1e-1000001, is refused too.
func Canonical(data []byte) ([]byte, error) {
	if err := Check(data, Limits{}); err != nil {
		return nil, err
	}
	sorted := jsontext.Value(bytes.Clone(data))
	err := sorted.Canonicalize(jsontext.CanonicalizeRawInts(false), jsontext.CanonicalizeRawFloats(false))
	if err != nil {
		return nil, describe(data, err)
	}
	return rewriteNumbers(sorted)
}

// rewriteNumbers puts every number of a compact document in canonical form.
func rewriteNumbers(doc []byte) ([]byte, error) {
	out := make([]byte, 0, len(doc))
	for i := 0; i < len(doc); {
		switch c := doc[i]; {
		case c == '"':
			end := stringEnd(doc, i)
			out = append(out, doc[i:end]...)
			i = end
		case c == '-' || '0' <= c && c <= '9':
			end := i + len(doc[i:])
			if n := bytes.IndexAny(doc[i:], ",]}"); n >= 0 {
				end = i + n
			}
			var ok bool
			if out, ok = appendNumber(out, doc[i:end]); !ok {
				return nil, newSyntaxError(doc, i, "", "number "+shorten(string(doc[i:end]))+" with an exponent beyond a million",
					"send it as a string")
			}
			i = end
		default:
			out = append(out, c)
			i++
		}
	}
	return out, nil
}

// stringEnd returns the offset after the string that starts at i.
func stringEnd(doc []byte, i int) int {
	for i++; doc[i] != '"'; i++ {
		if doc[i] == '\\' {
			i++
		}
	}
	return i + 1
}

const (
	maxExponent  = 1_000_000
	maxZeroTail  = 20 // so that 1e20 is written out and 1e21 is not, as in RFC 8785
	maxZeroFront = 5  // so that 0.000001 is written out and 1e-7 is not, as in RFC 8785
)

// appendNumber appends the canonical form of a valid JSON number. It reports
// false if the exponent is out of range.
func appendNumber(dst, text []byte) ([]byte, bool) {
	if !bytes.ContainsAny(text, ".eE") && len(text) <= maxZeroTail && text[0] != '-' {
		return append(dst, text...), true // a whole number as most are
	}
	negative := text[0] == '-'
	if negative {
		text = text[1:]
	}
	digits, exponent, ok := significand(text)
	point := len(digits) + exponent // digits before the decimal point
	switch {
	case len(digits) == 0:
		return append(dst, '0'), true
	case !ok || point-1 < -maxExponent || point-1 > maxExponent:
		return dst, false
	case negative:
		dst = append(dst, '-')
	}
	switch {
	case 0 <= exponent && exponent <= maxZeroTail: // 120
		dst = append(dst, digits...)
		return appendZeros(dst, exponent), true
	case exponent < 0 && point > 0: // 1.2
		dst = append(dst, digits[:point]...)
		dst = append(dst, '.')
		return append(dst, digits[point:]...), true
	case exponent < 0 && point >= -maxZeroFront: // 0.012
		dst = appendZeros(append(dst, "0."...), -point)
		return append(dst, digits...), true
	}
	dst = append(dst, digits[0]) // 1.2e+30
	if len(digits) > 1 {
		dst = append(dst, '.')
		dst = append(dst, digits[1:]...)
	}
	dst = append(dst, 'e')
	if point > 0 {
		dst = append(dst, '+')
	}
	return strconv.AppendInt(dst, int64(point-1), 10), true
}

// significand splits a number without its sign into digits, with no zeros at
// either end, and the power of ten that they are to be multiplied by.
func significand(text []byte) (digits []byte, exponent int, ok bool) {
	ok = true
	if i := bytes.IndexAny(text, "eE"); i >= 0 {
		var err error
		exponent, err = strconv.Atoi(string(text[i+1:]))
		ok = err == nil
		text = text[:i]
	}
	whole, fraction, _ := bytes.Cut(text, []byte("."))
	digits = append(bytes.Clone(whole), fraction...)
	exponent -= len(fraction)
	trimmed := bytes.TrimRight(digits, "0")
	exponent += len(digits) - len(trimmed)
	return bytes.TrimLeft(trimmed, "0"), exponent, ok
}

func appendZeros(dst []byte, n int) []byte {
	for range n {
		dst = append(dst, '0')
	}
	return dst
}
