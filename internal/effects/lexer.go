package effects

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// kind of a token.
type kind int

const (
	word   kind = iota // a bare word, in lower case
	quoted             // a quoted identifier, as it is
	text               // a string or number
	mark               // one character of punctuation
)

type token struct {
	kind kind
	text string
}

func (t token) is(words ...string) bool {
	if t.kind != word && t.kind != mark {
		return false
	}
	for _, w := range words {
		if t.text == w {
			return true
		}
	}
	return false
}

// lexer reads SQL as all dialects do together. Where they disagree about what
// is code and what is not, doubt is set.
type lexer struct {
	rest   string
	tokens []token
	doubt  bool
	// depth is how many comments that are code stand around; dollars counts
	// the attempts to read a dollar-quoted text.
	depth, dollars int
	// adjoins means that a word ended just here.
	adjoins bool
}

// Bounds that keep the reading linear, whatever the text.
const (
	sqlMaxDepth = 4
	maxDollars  = 200
	maxName     = 128
)

func lex(s string, depth int) (tokens []token, doubt bool) {
	l := &lexer{rest: s, depth: depth}
	if depth > sqlMaxDepth {
		return nil, true
	}
	for l.rest != "" {
		starts := isWord(l.rest[0])
		l.next()
		l.adjoins = starts
	}
	return l.tokens, l.doubt
}

func (l *lexer) add(k kind, text string) { l.tokens = append(l.tokens, token{k, text}) }

func (l *lexer) next() {
	s := l.rest
	switch c := s[0]; {
	case c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\f' || c == '\v':
		l.rest = s[1:]
	case strings.HasPrefix(s, "--"):
		// MySQL wants a space behind the dashes, others do not.
		if len(s) > 2 && s[2] > ' ' {
			l.doubt = true
		}
		l.line(2)
	case c == '#':
		l.doubt = true // a comment in MySQL, an operator in PostgreSQL
		l.line(1)
	case strings.HasPrefix(s, "/*"):
		l.comment()
	case (c == '\'' || c == '"') && l.spelled():
		l.doubt = true // U&"\0061" has escapes
		l.string(c, quoted)
	case c == '\'':
		if n := len(l.tokens); n > 0 && l.adjoins && l.tokens[n-1].is("q", "nq") {
			l.doubt = true // Oracle: what ends the text is the character behind the quote
		}
		l.string('\'', text)
	case c == '"':
		l.string('"', quoted)
	case c == '`':
		l.string('`', quoted)
	case c == '[':
		l.bracket()
	case c == '$':
		l.dollar()
	case '0' <= c && c <= '9':
		l.run(text)
	case isWord(c):
		l.run(word)
	case c == '\\' || c == 0:
		l.doubt = true // psql's own commands; nothing of SQL
		l.rest = s[1:]
	default:
		l.add(mark, s[:1])
		l.rest = s[1:]
	}
}

// spelled reports whether U& stands just before.
func (l *lexer) spelled() bool {
	n := len(l.tokens)
	return n > 1 && l.tokens[n-1].is("&") && l.tokens[n-2].is("u")
}

func isWord(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || c == '_' || c >= 0x80 || '0' <= c && c <= '9' || c == '$'
}

func (l *lexer) run(k kind) {
	n := 1
	for n < len(l.rest) && isWord(l.rest[n]) {
		n++
	}
	if strings.ContainsFunc(l.rest[:n], isInvisible) {
		l.doubt = true // a space in some dialects, a letter in others
	}
	l.add(k, strings.ToLower(l.rest[:n]))
	l.rest = l.rest[n:]
}

func isInvisible(r rune) bool {
	return r >= 0x80 && (unicode.IsSpace(r) || unicode.In(r, unicode.Cf, unicode.Z) || r == utf8.RuneError)
}

func (l *lexer) line(from int) {
	end := strings.IndexAny(l.rest[from:], "\r\n")
	if end < 0 {
		l.rest = ""
		return
	}
	if l.rest[from+end] == '\r' {
		l.doubt = true // where the line ends is a matter of dialect
	}
	l.rest = l.rest[from+end+1:]
}

// comment skips /* … */. Some dialects nest them, and MySQL runs what stands
// within /*! … */.
func (l *lexer) comment() {
	body, rest, closed := strings.Cut(l.rest[2:], "*/")
	if !closed || strings.Contains(body, "/*") {
		l.doubt = true
	}
	if code, ok := strings.CutPrefix(body, "!"); ok || strings.HasPrefix(body, "M!") { // a hint to an optimiser (+) is no code
		l.doubt = true
		inner, _ := lex(strings.TrimLeft(code, "!M0123456789"), l.depth+1)
		l.tokens = append(l.tokens, inner...)
	}
	l.rest = rest
}

// string reads a text with its quote doubled inside. That a backslash escapes is
// true of some dialects only.
func (l *lexer) string(quote byte, k kind) {
	s := l.rest
	var value strings.Builder
	for i := 1; i < len(s); i++ {
		switch {
		case s[i] == '\\' && i+1 < len(s) && (s[i+1] == quote || s[i+1] == '\\'):
			l.doubt = true
			value.WriteByte(s[i])
		case s[i] == quote && i+1 < len(s) && s[i+1] == quote:
			value.WriteByte(quote)
			i++
		case s[i] == quote:
			l.add(k, value.String())
			l.rest = s[i+1:]
			return
		default:
			value.WriteByte(s[i])
		}
	}
	l.doubt = true // it does not end
	l.rest = ""
}

// bracket reads the identifiers of SQL Server; elsewhere it is an index.
func (l *lexer) bracket() {
	end := strings.IndexByte(l.rest[:min(len(l.rest), maxName)], ']')
	if end > 1 && strings.Trim(l.rest[1:end], "0123456789: ,") != "" {
		if strings.ContainsAny(l.rest[1:end], `'"();`) {
			l.doubt = true // it may be an index that is computed
		}
		l.add(quoted, l.rest[1:end])
		l.rest = l.rest[end+1:]
		return
	}
	l.add(mark, "[")
	l.rest = l.rest[1:]
}

// dollar reads $tag$ … $tag$ of PostgreSQL, else a parameter.
func (l *lexer) dollar() {
	end := strings.IndexByte(l.rest[1:min(len(l.rest), maxName)], '$')
	l.dollars++
	l.doubt = l.doubt || l.dollars > maxDollars
	if end >= 0 && l.dollars <= maxDollars && strings.IndexFunc(l.rest[1:1+end], func(r rune) bool { return r < 0x80 && !isWord(byte(r)) }) < 0 {
		tag := l.rest[:end+2]
		if body, rest, closed := strings.Cut(l.rest[len(tag):], tag); closed {
			l.doubt = true // other dialects run what stands within
			l.add(text, body)
			l.rest = rest
			return
		}
	}
	l.run(text)
}
