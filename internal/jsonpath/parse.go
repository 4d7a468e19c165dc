package jsonpath

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"
)

// SyntaxError says where a path is not right.
type SyntaxError struct {
	Path   string
	Offset int // in bytes
	Reason string
}

func (e *SyntaxError) Error() string {
	return fmt.Sprintf("the JSON path %q is not right at byte %d: %s", e.Path, e.Offset, e.Reason)
}

// Parse reads a path. The error is a [*SyntaxError].
func Parse(path string) (*Path, error) {
	p := &parser{text: path}
	if len(path) > MaxPath {
		p.text = path[:64] + "…"
		return nil, p.fail("it is longer than %d bytes", MaxPath)
	}
	if !utf8.ValidString(path) {
		return nil, p.fail("it is not valid UTF-8")
	}
	if !p.take("$") {
		return nil, p.fail("a path begins with $")
	}
	segments, err := p.segments()
	if err != nil {
		return nil, err
	}
	if p.at < len(p.text) {
		return nil, p.fail("expected . or [")
	}
	return &Path{segments}, nil
}

type parser struct {
	text  string
	at    int
	depth int // of filters and parentheses
}

// maxDepth bounds the recursion of the parser.
const maxDepth = 64

func (p *parser) fail(format string, args ...any) error {
	return &SyntaxError{p.text, p.at, fmt.Sprintf(format, args...)}
}

func (p *parser) peek() byte {
	if p.at < len(p.text) {
		return p.text[p.at]
	}
	return 0
}

func (p *parser) take(token string) bool {
	if !strings.HasPrefix(p.text[p.at:], token) {
		return false
	}
	p.at += len(token)
	return true
}

func (p *parser) space() {
	for p.at < len(p.text) && strings.IndexByte(" \t\n\r", p.text[p.at]) >= 0 {
		p.at++
	}
}

// segments reads what follows $ or @. Space before what is no segment is not
// part of them.
func (p *parser) segments() ([]segment, error) {
	var list []segment
	for {
		before := p.at
		p.space()
		var seg segment
		var err error
		switch {
		case p.take(".."):
			seg.descendant = true
			if p.take("[") {
				seg.selectors, err = p.bracket()
			} else {
				seg.selectors, err = p.shorthand()
			}
		case p.take("."):
			seg.selectors, err = p.shorthand()
		case p.take("["):
			seg.selectors, err = p.bracket()
		default:
			p.at = before
			return list, nil
		}
		if err != nil {
			return nil, err
		}
		list = append(list, seg)
	}
}

func (p *parser) shorthand() ([]selector, error) {
	if p.take("*") {
		return []selector{wildcard{}}, nil
	}
	start := p.at
	for p.at < len(p.text) && isNameByte(p.text[p.at], p.at == start) {
		p.at++
	}
	if p.at == start {
		return nil, p.fail("expected a name or *; other names are written ['like this']")
	}
	return []selector{nameSelector(p.text[start:p.at])}, nil
}

func isNameByte(c byte, first bool) bool {
	return c == '_' || c >= utf8.RuneSelf || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || !first && '0' <= c && c <= '9'
}

// bracket reads the selectors after [.
func (p *parser) bracket() ([]selector, error) {
	var list []selector
	for {
		p.space()
		sel, err := p.selector()
		if err != nil {
			return nil, err
		}
		list = append(list, sel)
		p.space()
		switch {
		case p.take(","):
		case p.take("]"):
			return list, nil
		default:
			return nil, p.fail("expected , or ]")
		}
	}
}

func (p *parser) selector() (selector, error) {
	switch c := p.peek(); {
	case c == '*':
		p.at++
		return wildcard{}, nil
	case c == '\'' || c == '"':
		name, err := p.quoted()
		return nameSelector(name), err
	case c == '?':
		p.at++
		condition, err := p.or()
		return filterSelector{condition}, err
	default:
		return p.indexOrSlice()
	}
}

func (p *parser) indexOrSlice() (selector, error) {
	start, err := p.bound()
	if err != nil {
		return nil, err
	}
	afterStart := p.at
	p.space()
	if !p.take(":") {
		if start == nil {
			return nil, p.fail("expected a quoted name, an index, a slice, * or ?")
		}
		p.at = afterStart
		return indexSelector(*start), nil
	}
	sl := sliceSelector{start: start, step: 1}
	p.space()
	if sl.end, err = p.bound(); err != nil {
		return nil, err
	}
	afterEnd := p.at
	p.space()
	if !p.take(":") {
		p.at = afterEnd
		return sl, nil
	}
	p.space()
	step, err := p.bound()
	if err != nil {
		return nil, err
	}
	if step != nil {
		sl.step = *step
	}
	return sl, nil
}

// maxIndex is the largest integer that RFC 9535 section 2.1 allows.
const maxIndex = 1<<53 - 1

// bound reads an integer; nil when there is none.
func (p *parser) bound() (*int, error) {
	start := p.at
	p.take("-")
	for '0' <= p.peek() && p.peek() <= '9' {
		p.at++
	}
	text := p.text[start:p.at]
	if text == "" {
		return nil, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	// Only the shortest form is right: neither 01 nor -0.
	if err != nil || strconv.FormatInt(n, 10) != text || n > maxIndex || n < -maxIndex {
		p.at = start
		return nil, p.fail("%q is not an index", text)
	}
	i := int(n)
	return &i, nil
}

// quoted reads a name in single or double quotes.
func (p *parser) quoted() (string, error) {
	quote := p.peek()
	start := p.at
	p.at++
	// The text is turned into a JSON string, for which there is a decoder.
	var b strings.Builder
	b.WriteByte('"')
	for {
		switch c := p.peek(); {
		case p.at >= len(p.text):
			p.at = start
			return "", p.fail("the quote is not closed")
		case c < ' ':
			return "", p.fail("control characters are written \\u%04x", c)
		case c == quote:
			p.at++
			b.WriteByte('"')
			return p.decode(start, b.String())
		case c == '"': // within single quotes
			b.WriteString(`\"`)
			p.at++
		case c == '\\' && strings.HasPrefix(p.text[p.at+1:], "'") && quote == '\'':
			b.WriteByte('\'')
			p.at += 2
		case c == '\\' && strings.HasPrefix(p.text[p.at+1:], `"`) && quote == '\'':
			return "", p.fail(`\" is not an escape within single quotes`)
		case c == '\\' && p.at+1 < len(p.text):
			b.WriteString(p.text[p.at : p.at+2])
			p.at += 2
		default:
			b.WriteByte(c)
			p.at++
		}
	}
}

func (p *parser) decode(start int, quoted string) (string, error) {
	var name string
	if err := json.Unmarshal([]byte(quoted), &name); err != nil || hasLoneSurrogate(quoted) {
		end := p.at
		p.at = start
		return "", p.fail("%s has an escape that JSON does not know", p.text[start:end])
	}
	return name, nil
}

var escape = regexp.MustCompile(`(?i)\\(?:ud[89ab]..\\ud[c-f]..|u....|.)`)

// hasLoneSurrogate finds what encoding/json replaces instead of refusing: half
// of a pair, \ud800 to \udfff.
func hasLoneSurrogate(quoted string) bool {
	for _, e := range escape.FindAllString(quoted, -1) {
		if len(e) == len(`\ud800`) && (e[2] == 'd' || e[2] == 'D') && e[3] >= '8' {
			return true
		}
	}
	return false
}
