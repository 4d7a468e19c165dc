package schema

import (
	"fmt"
	"regexp"
	"regexp/syntax"
	"time"

	"github.com/dlclark/regexp2/v2"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

// compilePattern compiles a regular expression of a schema, or a text that is
// checked for the format regex. Patterns are those of ECMAScript. Go's own
// engine, which is linear in time, takes nearly all of them. The rest, those that
// look ahead or refer back, go to a backtracking engine whose time is charged:
// zod 4 writes a lookahead for every e-mail address, so that without it many MCP
// servers would have no schemas.
func (m *meter) compilePattern(text string) (jsonschema.Regexp, error) {
	m.checkDeadline()
	if len(text) > maxPattern {
		return nil, fmt.Errorf("longer than %d bytes", maxPattern)
	}
	defer func(start time.Time) { m.chargeTime(start) }(time.Now())
	parsed, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return m.compileBacktracking(text)
	}
	size := programSize(parsed)
	if err := m.addProgram(size); err != nil {
		return nil, err
	}
	linear, err := regexp.Compile(text)
	if err != nil {
		return nil, err
	}
	return &linearPattern{Regexp: linear, size: size, meter: m}, nil
}

// addProgram counts a pattern that is about to be compiled.
func (m *meter) addProgram(size int) error {
	m.charge(1 + size)
	if m.programs += size; m.programs > maxPrograms {
		return fmt.Errorf("too large with its repetitions written out: all patterns together may have %d instructions", maxPrograms)
	}
	return nil
}

// A linearPattern takes time in proportion to its size times that of the text.
type linearPattern struct {
	*regexp.Regexp
	size  int
	meter *meter
}

func (p *linearPattern) MatchString(s string) bool {
	p.meter.charge(1 + matchCost(p.size, len(s)))
	return p.Regexp.MatchString(s)
}

// matchCost is the worst that matching costs, in steps. Patterns that keep every
// instruction busy, such as (x+x+){1,300}y, take 5 to 7 ns per instruction and byte.
func matchCost(size, length int) int { return size * length / 128 }

// programSize estimates the instructions of the compiled form. The compiler
// writes repetitions out, so that a short pattern can become a large program.
func programSize(re *syntax.Regexp) int {
	size := 1 + len(re.Rune)/16
	if re.Op == syntax.OpLiteral {
		size = len(re.Rune)
	}
	for _, sub := range re.Sub {
		size += programSize(sub)
	}
	if re.Op == syntax.OpRepeat {
		size *= max(re.Min, re.Max, 1)
	}
	return size
}

// matchTimeout ends a backtracking match. The engine looks at its clock every
// 100 ms, so that a match may take that much longer.
const matchTimeout = 50 * time.Millisecond

func (m *meter) compileBacktracking(text string) (jsonschema.Regexp, error) {
	if len(text) > maxBacktracking || groupDepth(text) > maxGroups {
		return nil, fmt.Errorf("with lookaround or back references, or malformed, and longer than %d bytes or with more than %d groups inside each other", maxBacktracking, maxGroups)
	}
	if err := m.addProgram(len(text)); err != nil {
		return nil, err
	}
	re, err := regexp2.Compile(text, regexp2.ECMAScript|regexp2.Unicode)
	if err != nil { // many authors write escapes that only the mode without Unicode has
		re, err = regexp2.Compile(text, regexp2.ECMAScript)
	}
	if err != nil {
		return nil, err
	}
	re.MatchTimeout = matchTimeout
	return &backtrackingPattern{re: re, meter: m}, nil
}

// groupDepth counts how many groups are open at once.
func groupDepth(pattern string) int {
	depth, deepest := 0, 0
	inClass := false
	for i := 0; i < len(pattern); i++ {
		switch c := pattern[i]; {
		case c == '\\':
			i++
		case c == '[':
			inClass = true
		case c == ']':
			inClass = false
		case c == '(' && !inClass:
			depth++
			deepest = max(deepest, depth)
		case c == ')' && !inClass:
			depth--
		}
	}
	return deepest
}

type backtrackingPattern struct {
	re    *regexp2.Regexp
	meter *meter
}

func (p *backtrackingPattern) String() string { return p.re.String() }

func (p *backtrackingPattern) MatchString(s string) bool {
	start := time.Now()
	matched, err := p.re.MatchString(s)
	if err != nil {
		panic(&Error{
			Kind: TooLarge, Reason: fmt.Sprintf("matching the pattern %s takes too long", quote(p.String())),
			Hint: "send a shorter text, or write the pattern without nested repetitions",
		})
	}
	p.meter.chargeTime(start)
	return matched
}
