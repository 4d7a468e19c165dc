package jsonx

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// PathError reports where a path is invalid.
type PathError struct {
	Path   string
	Offset int // in bytes
	Reason string
}

func (e *PathError) Error() string {
	return fmt.Sprintf("the JSON path %q is not right at byte %d: %s", e.Path, e.Offset, e.Reason)
}

// ParsePath reads a path. The error is a [*PathError].
func ParsePath(path string) (*Path, error) {
	p := &pathParser{text: path}
	if len(path) > MaxPathBytes {
		p.text = path[:64] + "…"
		return nil, p.fail("it is longer than %d bytes", MaxPathBytes)
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

type pathParser struct {
	text  string
	at    int
	depth int // of filters and parentheses
}

// maxPathDepth bounds the recursion of the parser.
const maxPathDepth = 64

func (p *pathParser) fail(format string, args ...any) error {
	return &PathError{p.text, p.at, fmt.Sprintf(format, args...)}
}

func (p *pathParser) peek() byte {
	if p.at < len(p.text) {
		return p.text[p.at]
	}
	return 0
}

func (p *pathParser) take(token string) bool {
	if !strings.HasPrefix(p.text[p.at:], token) {
		return false
	}
	p.at += len(token)
	return true
}

func (p *pathParser) space() {
	for p.at < len(p.text) && strings.IndexByte(" \t\n\r", p.text[p.at]) >= 0 {
		p.at++
	}
}

// segments reads the segments after $ or @. It leaves white space that no segment follows.
func (p *pathParser) segments() ([]segment, error) {
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

func (p *pathParser) shorthand() ([]selector, error) {
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
func (p *pathParser) bracket() ([]selector, error) {
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

func (p *pathParser) selector() (selector, error) {
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

func (p *pathParser) indexOrSlice() (selector, error) {
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

// bound reads an integer. It returns nil if there is none.
func (p *pathParser) bound() (*int, error) {
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
func (p *pathParser) quoted() (string, error) {
	quote := p.peek()
	start := p.at
	p.at++
	// Convert the text to a JSON string, for which there is a decoder.
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

func (p *pathParser) decode(start int, quoted string) (string, error) {
	name, err := jsontext.AppendUnquote(nil, quoted)
	if err != nil {
		end := p.at
		p.at = start
		return "", p.fail("%s has an escape that JSON does not know", p.text[start:end])
	}
	return string(name), nil
}
