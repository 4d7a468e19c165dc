package effects

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// tokenKind is the kind of a token.
type tokenKind int

const (
	wordToken   tokenKind = iota // a bare word, in lower case
	quotedName                   // a quoted identifier, as it is
	literal                      // a string or number
	punctuation                  // one character of punctuation
)

type token struct {
	kind tokenKind
	text string
}

func (t token) is(words ...string) bool {
	if t.kind != wordToken && t.kind != punctuation {
		return false
	}
	return slices.Contains(words, t.text)
}

// lexer reads the SQL that all dialects share. If they disagree about what is code, it sets
// ambiguous.
type lexer struct {
	rest      string
	tokens    []token
	ambiguous bool
	// depth is how many comments with code enclose this text; dollars counts the attempts to
	// read a dollar-quoted string.
	depth, dollars int
	// afterWord means that the previous token was a word and ends here.
	afterWord bool
}

// Limits that keep the time linear in the length of the text.
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
		starts := isWordChar(l.rest[0])
		l.readToken()
		l.afterWord = starts
	}
	return l.tokens, l.ambiguous
}

func (l *lexer) add(k tokenKind, text string) { l.tokens = append(l.tokens, token{k, text}) }

func (l *lexer) readToken() {
	s := l.rest
	switch c := s[0]; {
	case c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\f' || c == '\v':
		l.rest = s[1:]
	case strings.HasPrefix(s, "--"):
		// MySQL requires a space after the dashes, others do not.
		if len(s) > 2 && s[2] > ' ' {
			l.ambiguous = true
		}
		l.skipLine(2)
	case c == '#':
		l.ambiguous = true // a comment in MySQL, an operator in PostgreSQL
		l.skipLine(1)
	case strings.HasPrefix(s, "/*"):
		l.skipComment()
	case (c == '\'' || c == '"') && l.followsUnicodePrefix():
		l.ambiguous = true // U&"\0061" has escapes
		l.readString(c, quotedName)
	case c == '\'':
		if n := len(l.tokens); n > 0 && l.afterWord && l.tokens[n-1].is("q", "nq") {
			l.ambiguous = true // in Oracle, the character after the quote also ends the string
		}
		l.readString('\'', literal)
	case c == '"':
		l.readString('"', quotedName)
	case c == '`':
		l.readString('`', quotedName)
	case c == '[':
		l.readBracket()
	case c == '$':
		l.readDollar()
	case '0' <= c && c <= '9':
		l.readRun(literal)
	case isWordChar(c):
		l.readRun(wordToken)
	case c == '\\' || c == 0:
		l.ambiguous = true // a command of psql, not SQL
		l.rest = s[1:]
	default:
		l.add(punctuation, s[:1])
		l.rest = s[1:]
	}
}

// followsUnicodePrefix reports whether the previous tokens are U&.
func (l *lexer) followsUnicodePrefix() bool {
	n := len(l.tokens)
	return n > 1 && l.tokens[n-1].is("&") && l.tokens[n-2].is("u")
}

func isWordChar(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || c == '_' || c >= 0x80 || '0' <= c && c <= '9' || c == '$'
}

func (l *lexer) readRun(k tokenKind) {
	n := 1
	for n < len(l.rest) && isWordChar(l.rest[n]) {
		n++
	}
	if strings.ContainsFunc(l.rest[:n], isInvisible) {
		l.ambiguous = true // a space in some dialects, a letter in others
	}
	l.add(k, strings.ToLower(l.rest[:n]))
	l.rest = l.rest[n:]
}

func isInvisible(r rune) bool {
	return r >= 0x80 && (unicode.IsSpace(r) || unicode.In(r, unicode.Cf, unicode.Z) || r == utf8.RuneError)
}

func (l *lexer) skipLine(from int) {
	end := strings.IndexAny(l.rest[from:], "\r\n")
	if end < 0 {
		l.rest = ""
		return
	}
	if l.rest[from+end] == '\r' {
		l.ambiguous = true // dialects disagree about where the line ends
	}
	l.rest = l.rest[from+end+1:]
}

// skipComment skips /* … */. Some dialects nest these comments, and MySQL runs the code in
// /*! … */.
func (l *lexer) skipComment() {
	body, rest, closed := strings.Cut(l.rest[2:], "*/")
	if !closed || strings.Contains(body, "/*") {
		l.ambiguous = true
	}
	if code, ok := strings.CutPrefix(body, "!"); ok || strings.HasPrefix(body, "M!") { // an optimizer hint (+) is not code
		l.ambiguous = true
		inner, _ := lex(strings.TrimLeft(code, "!M0123456789"), l.depth+1)
		l.tokens = append(l.tokens, inner...)
	}
	l.rest = rest
}

// readString reads a string or quoted name, in which a quote is doubled. A backslash is an
// escape in some dialects only.
func (l *lexer) readString(quote byte, k tokenKind) {
	s := l.rest
	var value strings.Builder
	for i := 1; i < len(s); i++ {
		switch {
		case s[i] == '\\' && i+1 < len(s) && (s[i+1] == quote || s[i+1] == '\\'):
			l.ambiguous = true
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
	l.ambiguous = true // it does not end
	l.rest = ""
}

// readBracket reads a [name] of SQL Server; in other dialects it is an index.
func (l *lexer) readBracket() {
	end := strings.IndexByte(l.rest[:min(len(l.rest), maxName)], ']')
	if end > 1 && strings.Trim(l.rest[1:end], "0123456789: ,") != "" {
		if strings.ContainsAny(l.rest[1:end], `'"();`) {
			l.ambiguous = true // it may be a computed index
		}
		l.add(quotedName, l.rest[1:end])
		l.rest = l.rest[end+1:]
		return
	}
	l.add(punctuation, "[")
	l.rest = l.rest[1:]
}

// readDollar reads $tag$ … $tag$ of PostgreSQL, or a parameter.
func (l *lexer) readDollar() {
	end := strings.IndexByte(l.rest[1:min(len(l.rest), maxName)], '$')
	l.dollars++
	l.ambiguous = l.ambiguous || l.dollars > maxDollars
	if end >= 0 && l.dollars <= maxDollars && strings.IndexFunc(l.rest[1:1+end], func(r rune) bool { return r < 0x80 && !isWordChar(byte(r)) }) < 0 {
		tag := l.rest[:end+2]
		if body, rest, closed := strings.Cut(l.rest[len(tag):], tag); closed {
			l.ambiguous = true // other dialects run its content
			l.add(literal, body)
			l.rest = rest
			return
		}
	}
	l.readRun(literal)
}
