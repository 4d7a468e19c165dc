package program

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// kind is the kind of a token.
type kind int

const (
	end kind = iota // of the text
	newline
	word
	number
	text     // a string or bytes literal, an f-string without fields included
	template // the beginning of an f-string with fields
	field    // where a field of an f-string begins or ends
	operator
)

// token is a piece of a program. Positions are bytes in the source.
type token struct {
	kind       kind
	text       string
	start, end int
	// first is set on the first token of a logical line; indent is the indentation of that
	// line.
	first  bool
	indent int
	// depth is how many brackets are open around the token.
	depth int
}

func (t token) is(s string) bool { return (t.kind == operator || t.kind == word) && t.text == s }

// scanner splits a program into tokens. It accepts any text. If the text is not Python, the
// tokens are meaningless, and Monty reports the error.
type scanner struct {
	source    string
	pos       int
	tokens    []token
	depth     int
	lineStart bool // the next token begins a logical line
	indent    int
	nested    int // f-strings in f-strings
}

// maxNested is how deep f-strings may nest. Python allows more than anybody writes.
const maxNested = 20

// maxTokens is the largest number of tokens of a program. Each takes some 100 bytes of this
// process, which are not part of the program's memory limit.
const maxTokens = 300_000

// scan returns the tokens of a program, the last of which is end.
func scan(source string) []token {
	s := &scanner{source: source, lineStart: true, tokens: make([]token, 0, min(len(source)/4+4, maxTokens))}
	for s.pos < len(s.source) && len(s.tokens) <= maxTokens {
		s.next()
	}
	s.add(newline, s.pos, s.pos)
	s.add(end, s.pos, s.pos)
	return s.tokens
}

func (s *scanner) add(k kind, start, stop int) {
	t := token{kind: k, text: s.source[start:stop], start: start, end: stop, depth: s.depth, indent: s.indent}
	if k != newline && k != end && s.lineStart {
		t.first, s.lineStart = true, false
	}
	s.tokens = append(s.tokens, t)
}

// next reads one token, or the space or comment between tokens.
func (s *scanner) next() {
	start := s.pos
	switch c := s.source[s.pos]; {
	case c == '\n':
		s.pos++
		s.line(start)
	case c == ' ' || c == '\t' || c == '\r' || c == '\f':
		s.pos++
		if s.lineStart {
			s.indent++
		}
	case c == '\\' && s.pos+1 < len(s.source):
		s.pos += 2
	case c == '#':
		for s.pos < len(s.source) && s.source[s.pos] != '\n' {
			s.pos++
		}
	case c == '"' || c == '\'':
		s.literal(start, "")
	case c >= '0' && c <= '9' || c == '.' && s.pos+1 < len(s.source) && isDigit(s.source[s.pos+1]):
		s.number(start)
	case startsWord(s.source[s.pos:]):
		s.word(start)
	default:
		s.operator(start)
	}
}

func (s *scanner) line(start int) {
	if s.depth > 0 {
		return
	}
	if !s.lineStart {
		s.add(newline, start, s.pos)
	}
	s.lineStart, s.indent = true, 0
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

func startsWord(rest string) bool {
	r, _ := utf8.DecodeRuneInString(rest)
	return r == '_' || unicode.IsLetter(r)
}

func (s *scanner) number(start int) {
	for s.pos < len(s.source) {
		c := s.source[s.pos]
		exponent := (c == '+' || c == '-') && strings.ContainsRune("eE", rune(s.source[s.pos-1])) && !strings.HasPrefix(s.source[start:], "0x")
		if !isDigit(c) && c != '.' && c != '_' && (c|0x20 < 'a' || c|0x20 > 'z') && !exponent {
			break
		}
		s.pos++
	}
	s.add(number, start, s.pos)
}

func (s *scanner) word(start int) {
	for s.pos < len(s.source) {
		r, size := utf8.DecodeRuneInString(s.source[s.pos:])
		if r != '_' && !unicode.IsLetter(r) && !unicode.IsDigit(r) && !unicode.Is(unicode.Mn, r) {
			break
		}
		s.pos += size
	}
	prefix := strings.ToLower(s.source[start:s.pos])
	if s.pos < len(s.source) && (s.source[s.pos] == '"' || s.source[s.pos] == '\'') && len(prefix) <= 2 && strings.Trim(prefix, "rbuft") == "" {
		s.literal(start, prefix)
		return
	}
	s.add(word, start, s.pos)
}

// literal reads a string literal that begins at start, with its quotes at pos.
func (s *scanner) literal(start int, prefix string) {
	quote := s.source[s.pos : s.pos+1]
	if strings.HasPrefix(s.source[s.pos:], strings.Repeat(quote, 3)) {
		quote = strings.Repeat(quote, 3)
	}
	s.pos += len(quote)
	fields := strings.ContainsAny(prefix, "ft") && s.nested < maxNested
	if fields {
		s.add(template, start, s.pos)
	}
	s.body(quote, fields, false)
	if !fields {
		s.add(text, start, s.pos)
	}
}

// body reads the content of a string and its closing quotes; or the format in a field, up to the
// brace that closes the field.
func (s *scanner) body(quote string, fields, format bool) {
	for s.pos < len(s.source) {
		rest := s.source[s.pos:]
		switch {
		case format && rest[0] == '}':
			return
		case strings.HasPrefix(rest, quote):
			if !format {
				s.pos += len(quote)
			}
			return
		case rest[0] == '\\' && len(rest) > 1:
			s.pos += 2
		case rest[0] == '\n' && len(quote) == 1:
			return
		case fields && !format && (strings.HasPrefix(rest, "{{") || strings.HasPrefix(rest, "}}")):
			s.pos += 2
		case fields && rest[0] == '{' && s.nested < maxNested:
			s.field(quote)
		default:
			s.pos++
		}
	}
}

// field reads a field of an f-string: an expression, a conversion, a format.
func (s *scanner) field(quote string) {
	s.nested++
	outer := s.depth
	s.depth++
	s.pos++
	s.add(field, s.pos-1, s.pos)
	defer func() {
		s.depth = outer
		s.nested--
	}()
	inner := s.depth
	for s.pos < len(s.source) {
		rest := s.source[s.pos:]
		switch {
		case s.depth == inner && rest[0] == '}':
			s.pos++
			s.add(field, s.pos-1, s.pos)
			return
		case s.depth == inner && rest[0] == '!' && !strings.HasPrefix(rest, "!="):
			s.add(field, s.pos, s.pos+1)
			s.pos++
		case s.depth == inner && rest[0] == ':' && !strings.HasPrefix(rest, ":="):
			s.add(field, s.pos, s.pos+1)
			s.pos++
			s.body(quote, true, true)
		case len(quote) == 1 && rest[0] == '\n':
			return // the string was never closed
		default:
			s.next()
		}
	}
}

var operators = []string{"**=", "//=", ">>=", "<<=", "...", "->", ":=", "==", "!=", "<=", ">=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "@=", "**", "//", ">>", "<<"}

func (s *scanner) operator(start int) {
	s.pos++
	if s.pos < len(s.source) && strings.IndexByte("=*/<>.", s.source[s.pos]) >= 0 { // else it is alone
		for _, op := range operators {
			if strings.HasPrefix(s.source[start:], op) {
				s.pos = start + len(op)
				break
			}
		}
	}
	for s.pos < len(s.source) && !utf8.RuneStart(s.source[s.pos]) {
		s.pos++
	}
	switch s.source[start] {
	case '(', '[', '{':
		s.add(operator, start, s.pos)
		s.depth++
	case ')', ']', '}':
		s.depth = max(s.depth-1, 0)
		s.add(operator, start, s.pos)
	default:
		s.add(operator, start, s.pos)
	}
}
