package schema

import (
	"regexp/syntax"
	"strings"
)

// patternExample makes up a text that a regular expression may match. It takes
// the shortest way through and does not look at boundaries, so that the result
// has to be checked.
func patternExample(pattern string) (string, bool) {
	re, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil || programSize(re) > maxExample {
		return "", false
	}
	var b strings.Builder
	writeMatch(&b, re)
	return b.String(), true
}

func writeMatch(b *strings.Builder, re *syntax.Regexp) {
	times := 1
	switch re.Op {
	case syntax.OpLiteral:
		b.WriteString(string(re.Rune))
	case syntax.OpCharClass:
		b.WriteRune(readable(re.Rune))
	case syntax.OpAnyChar, syntax.OpAnyCharNotNL:
		b.WriteByte('x')
	case syntax.OpAlternate:
		writeMatch(b, re.Sub[0])
		return
	case syntax.OpStar, syntax.OpQuest:
		return
	case syntax.OpRepeat:
		times = re.Min
	}
	for range times {
		for _, sub := range re.Sub {
			writeMatch(b, sub)
		}
	}
}

// readable picks a rune of a class, given as pairs of bounds: a letter or digit
// if there is one.
func readable(class []rune) rune {
	for _, wanted := range "axA1" {
		for i := 0; i+1 < len(class); i += 2 {
			if class[i] <= wanted && wanted <= class[i+1] {
				return wanted
			}
		}
	}
	if len(class) == 0 {
		return 'x'
	}
	return class[0]
}
