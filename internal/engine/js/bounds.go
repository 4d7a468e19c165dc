package js

import (
	"cmp"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Go parsers recurse without a limit, and a goroutine that exhausts its stack ends
// the process. One of the parsers also reads the parameters of an arrow function
// twice, and those nested in them four times. So a text is measured before it is
// parsed.
const (
	maxNesting    = 250    // nested brackets and templates; for functions the time grows with the cube
	maxTokens     = 20_000 // words and signs of one statement, including the statements around it
	maxAngles     = 500    // < of one statement, which may be nested types
	maxColons     = 500    // : of one statement, which may be labels; each label is compared with the others
	maxCommas     = 30_000 // commas of one statement outside lists: as an operator, each takes longer than the one before
	maxBodies     = 100    // arrow functions nested as bodies
	maxArrows     = 8      // arrow functions nested in parameters
	maxDigits     = 10_000 // digits of one number, which takes quadratic time to parse
	maxRedeclared = 100    // names that are declared twice in one block; a parser locates the first declaration of each
	maxSource     = 4 << 20
	maxEnums      = 16 << 20 // bytes of enum values in the output: esbuild writes a value at each of its uses

	// A shorter text is parsed without measuring it.
	maxUnmeasured         = 32 << 10
	maxUnmeasuredBrackets = maxNesting
	maxUnmeasuredArrows   = 12
)

// tooComplex says where and why a text is too complex to be parsed, or may be.
type tooComplex struct {
	at     int
	reason string
}

// measure returns the first place of a text that a parser would recurse into too deeply or work
// on for too long, or nil. It also finds enums whose values would make the output too long.
func measure(source string) *tooComplex {
	var e enums
	if bad := e.measure(source); bad != nil {
		return bad
	}
	return e.tooLong()
}

// enums measures the enums of some texts. esbuild computes their values and writes them wherever
// they are used.
type enums struct {
	longest  int  // length of the longest text of a member
	uses     int  // how often members may be used
	concatAt int  // where something may be added to such a text, plus 1; 0 if it is nowhere
	found    bool // there are enums
}

// tooLong returns a problem if the values of the enums may make the output too long, else nil.
func (e *enums) tooLong() *tooComplex {
	switch {
	case e.longest > 0 && e.concatAt > 0:
		return &tooComplex{e.concatAt - 1, "members of enums that are texts cannot be put together: write the whole text, or use const"}
	case e.longest > 0 && e.uses > maxEnums/e.longest:
		return &tooComplex{0, fmt.Sprintf("a text of an enum has %d bytes, and members may be used %d times: use const", e.longest, e.uses)}
	}
	return nil
}

// measure adds the enums of a text to e. It returns the first place of the text that is too
// complex for a parser, or nil.
func (e *enums) measure(source string) *tooComplex {
	if len(source) > maxSource {
		return &tooComplex{maxSource, fmt.Sprintf("a program may have at most %d bytes: pass data as inputs, or in artifacts", maxSource)}
	}
	e.found = e.found || strings.Contains(source, "enum")
	brackets := strings.Count(source, "(") + strings.Count(source, "[") + strings.Count(source, "{")
	if len(source) <= maxUnmeasured && brackets <= maxUnmeasuredBrackets && strings.Count(source, "=>") <= maxUnmeasuredArrows && strings.Count(source, ":") <= maxColons && strings.Count(source, "<") <= maxAngles && !e.found {
		return nil
	}
	m := &meter{source: source, levels: make([]level, 1, 64), newline: true}
	for m.at < len(source) && m.bad == nil {
		m.step()
	}
	e.longest, e.uses, e.concatAt = max(e.longest, m.enums.longest), e.uses+m.enums.uses, cmp.Or(e.concatAt, m.enums.concatAt)
	return m.bad
}

// meter scans a text word by word and sign by sign, without a grammar. If a sign is ambiguous, and
// one of its meanings would hide the text after it from the meter, the meter refuses the text.
type meter struct {
	source           string
	at               int
	levels           []level // open brackets, the text itself first
	tokens           int     // the sum of their runs
	angles           int     // and of their angles
	colons           int     // and of their colons
	bodies           int     // and of their arrows
	commas           int     // and of their commas
	prev             kind    // of the previous word or sign
	word             string  // the previous word or sign itself
	newline          bool    // a newline followed it
	lineEnd          int     // end of the current line, once known
	declarationDepth int     // how many levels are open around the declaration that is read, 0 for none
	redeclared       int     // names declared a second time in their block
	justRedeclared   bool    // the previous word was one
	bad              *tooComplex
	enums            enums
	afterEnumName    bool // the previous words are enum and a name
}

// level is what is inside one pair of brackets.
type level struct {
	open    byte
	control bool // after if, while, for and the like
	tokens  int  // words and signs since the last separator of statements or items
	angles  int
	colons  int
	bodies  int
	commas  int
	list    bool            // a list, not an index
	arrows  int             // deepest nesting of arrow functions in parameters
	names   map[string]bool // that let, const and class declare
	enum    bool            // within an enum
}

type kind int

const (
	sign     kind = iota // the beginning of an expression follows
	value                // the end of an expression
	keyword              // a reserved word that an expression follows
	name                 // a word that may be a name or a keyword
	closed               // a parenthesis
	control              // the parenthesis of an if, while, for or with
	block                // a closing brace
	doubtful             // may end an expression, or begin one
)

func (m *meter) fail(at int, format string, args ...any) {
	if m.bad == nil {
		m.bad = &tooComplex{at, fmt.Sprintf(format, args...)}
	}
}

func (m *meter) step() {
	rest := m.source[m.at:]
	c := rest[0]
	switch {
	case c == '\n' || c == '\r':
		m.newline = true
		m.at++
	case c <= ' ':
		m.at++
	case strings.HasPrefix(rest, "//"):
		m.at += len(m.line())
	case strings.HasPrefix(rest, "/*"):
		end := strings.Index(rest[2:], "*/")
		if end < 0 {
			end = len(rest) - 4
		}
		m.newline = m.newline || strings.ContainsAny(rest[:end+4], "\n\r\u2028\u2029")
		m.at += end + 4
	case strings.HasPrefix(rest, "<!--"), m.newline && strings.HasPrefix(rest, "-->"):
		m.fail(m.at, "%s may be a comment of HTML: put a space into it", rest[:3])
	case wordPart(rest) > 0:
		m.readWord(rest)
	case c >= utf8.RuneSelf:
		r, size := utf8.DecodeRuneInString(rest)
		m.newline = m.newline || r == '\u2028' || r == '\u2029'
		m.at += size
	default:
		m.readSign(rest, c)
	}
}

// wordPart returns the length of the first rune of a text, 0 if it cannot be part of a word.
func wordPart(text string) int {
	if text[0] < utf8.RuneSelf {
		if isNamePart(text[0]) {
			return 1
		}
		return 0
	}
	r, size := utf8.DecodeRuneInString(text)
	if unicode.In(r, unicode.L, unicode.N, unicode.M, unicode.Pc, unicode.Other_ID_Start, unicode.Other_ID_Continue) || r == '\u200c' || r == '\u200d' {
		return size
	}
	return 0
}

// lineEnd returns the length of the rest of the line.
func lineEnd(text string) int {
	for i := range len(text) {
		if c := text[i]; c == '\n' || c == '\r' || c == 0xe2 && (strings.HasPrefix(text[i:], "\u2028") || strings.HasPrefix(text[i:], "\u2029")) {
			return i
		}
	}
	return len(text)
}

// line returns the rest of the line. It searches for the end once for each line.
func (m *meter) line() string {
	if m.at >= m.lineEnd {
		m.lineEnd = m.at + lineEnd(m.source[m.at:])
	}
	return m.source[m.at:m.lineEnd]
}

func (m *meter) top() *level { return &m.levels[len(m.levels)-1] }

// count counts a word or sign.
func (m *meter) count() {
	m.top().tokens++
	if m.tokens++; m.tokens > maxTokens {
		m.fail(m.at, "a statement has more than %d words and signs: end it, or pass data as inputs", maxTokens)
	}
}

// separate resets the counts of the level for a new statement, or for a new item if all is false.
func (m *meter) separate(all bool) {
	top := m.top()
	m.tokens -= top.tokens
	m.colons -= top.colons
	m.bodies -= top.bodies
	top.tokens, top.colons, top.bodies = 0, 0, 0
	if all {
		m.angles -= top.angles
		m.commas -= top.commas
		top.angles, top.commas = 0, 0
	}
}

// Words by what may follow them: an expression, either an expression or an operator because the
// word may also be a name, or an operator.
var (
	beforeExpression = wordSet("return typeof case do else in instanceof new delete void throw extends default if while for with switch try finally const let var function class import export enum break continue debugger")
	beforeEither     = wordSet("await yield of async get set static as satisfies is type interface namespace module declare abstract readonly keyof unique infer asserts global override accessor public private protected out using implements package from require target meta constructor any")
	endsExpression   = wordSet("this super null true false")
	// Words that continue a statement after a line break.
	continuesStatement = wordSet("in of instanceof as satisfies is else catch finally extends implements while from")
)

func wordSet(list string) map[string]bool {
	set := map[string]bool{}
	for word := range strings.FieldsSeq(list) {
		set[word] = true
	}
	return set
}

func (m *meter) readWord(rest string) {
	end := 0
	for end < len(rest) && wordPart(rest[end:]) > 0 {
		end += wordPart(rest[end:])
	}
	word := rest[:end]
	digits := word[0] >= '0' && word[0] <= '9'
	if digits && end > maxDigits {
		m.fail(m.at, "a number has more than %d digits", maxDigits)
	}
	property := m.prev == sign && m.word == "."
	ended := m.prev == block || m.newline && (m.prev == value || m.prev == name && !beforeEither[m.word] || m.prev == closed)
	if ended && !continuesStatement[word] {
		m.separate(true)
	}
	m.count()
	m.afterEnumName = m.prev == keyword && m.word == "enum"
	if property || m.top().enum {
		m.enums.uses++
	}
	if word == "await" && m.prev == keyword && m.word == "for" {
		word = "for" // for await (
	}
	m.declare(word, property || digits || endsExpression[word])
	switch {
	case digits, property, endsExpression[word]:
		m.prev = value
	case beforeExpression[word]:
		m.prev = keyword
	default:
		m.prev = name
	}
	m.word, m.newline = word, false
	m.at += end
}

// declare records the names that let, const and class declare, until the declaration ends.
func (m *meter) declare(word string, other bool) {
	class := m.prev == keyword && m.word == "class"
	m.justRedeclared = false
	switch {
	case other, word == "of", word == "in", word == "extends", word == "enum":
		m.declarationDepth = 0
	case word == "let" || word == "const" || word == "class" && (m.prev == block || m.prev == sign && (m.word == ";" || m.word == "{")):
		m.declarationDepth = len(m.levels)
	case m.declarationDepth > 0 && m.declarationDepth <= len(m.levels):
		block := &m.levels[m.declarationDepth-1]
		if block.names == nil {
			block.names = map[string]bool{}
		}
		if m.justRedeclared = block.names[word]; m.justRedeclared {
			if m.redeclared++; m.redeclared > maxRedeclared {
				m.fail(m.at, "more than %d names are declared twice in one block", maxRedeclared)
			}
		}
		block.names[word] = true
		if class {
			m.declarationDepth = 0
		}
	default:
		m.declarationDepth = 0
	}
}

func (m *meter) readSign(rest string, c byte) {
	size := 1
	m.count()
	m.enumSign(rest, c)
	prev, newline := m.prev, m.newline
	m.prev, m.newline = sign, false
	switch {
	case c == ':' && m.justRedeclared && len(m.levels) > m.declarationDepth:
		m.redeclared-- // in {a: b} the name is b
	case c == ';' || c == '=' || c == '(' || c == ':' && len(m.levels) <= m.declarationDepth:
		m.declarationDepth = 0
	}
	m.justRedeclared = false
	switch c {
	case '(', '[', '{':
		m.open(c, c == '(' && prev == keyword && (m.word == "if" || m.word == "while" || m.word == "for" || m.word == "with"))
		m.top().list = c == '[' && (prev == sign || prev == keyword)
	case ')', ']', '}':
		m.close(c)
		if m.bad == nil && c == '}' && m.top().open == '`' {
			size += m.template(rest[1:])
		}
	case '`':
		m.open('`', false)
		size += m.template(rest[1:])
	case '"', '\'':
		if size = stringEnd(rest, c); size == 0 {
			m.fail(m.at, "a string is not closed in its line")
		}
		m.prev = value
	case '/':
		size = m.slash(prev, newline)
	case ';':
		m.separate(true)
	case ',':
		m.separate(false)
		if m.top().list {
			break
		}
		m.top().commas++
		if m.commas++; m.commas > maxCommas {
			m.fail(m.at, "a statement has more than %d commas outside lists: pass data as inputs", maxCommas)
		}
	case ':':
		m.top().colons++
		if m.colons++; m.colons > maxColons {
			m.fail(m.at, "a statement has more than %d colons", maxColons)
		}
	case '<':
		m.top().angles++
		if m.angles++; m.angles > maxAngles {
			m.fail(m.at, "a statement has more than %d <", maxAngles)
		}
	case '>':
		if m.at == 0 || m.source[m.at-1] != '=' {
			m.prev = doubtful
			break
		}
		m.top().bodies++
		if m.bodies++; m.bodies > maxBodies {
			m.fail(m.at, "more than %d arrow functions are nested", maxBodies)
		}
	case '+', '-':
		if m.at > 0 && m.source[m.at-1] == c {
			m.prev = doubtful
		}
	case '!':
		m.prev = doubtful
	}
	m.word = rest[:1]
	if strings.HasSuffix(m.source[:m.at+1], "...") {
		m.word = "..."
	}
	m.at += size
}

// enumSign counts a sign that may be part of an enum or a use of one.
func (m *meter) enumSign(rest string, c byte) {
	switch {
	case c == '\\' && (m.afterEnumName || m.prev == keyword && m.word == "enum"):
		m.fail(m.at, "the name of an enum has an escape: write the letter")
	case c == '[':
		m.enums.uses++
	case !m.top().enum:
	case c == '`':
		m.enums.longest, m.enums.concatAt = max(m.enums.longest, 1), cmp.Or(m.enums.concatAt, m.at+1)
	case c == '+':
		m.enums.concatAt = cmp.Or(m.enums.concatAt, m.at+1)
	case c == '"', c == '\'':
		m.enums.longest = max(m.enums.longest, stringEnd(rest, c))
	}
}

func (m *meter) open(c byte, control bool) {
	if len(m.levels) > maxNesting {
		m.fail(m.at, "it nests deeper than %d", maxNesting)
		return
	}
	m.levels = append(m.levels, level{open: c, control: control, enum: m.top().enum || m.afterEnumName && c == '{'})
	m.afterEnumName = false
}

// close closes a bracket, or several if they do not match, which the parser reports.
func (m *meter) close(c byte) {
	top := *m.top()
	m.prev = map[byte]kind{')': closed, ']': value, '}': block}[c]
	if opened := map[byte]byte{')': '(', ']': '[', '}': '{'}[c]; len(m.levels) == 1 || top.open != opened {
		return // the parser reports this
	}
	if top.control && c == ')' {
		m.prev = control
	}
	if c == ')' {
		if next := nextSign(m.source[m.at+1:]); next == "" || next == "=>" || next[0] == ':' {
			m.top().arrows++
		}
	}
	if m.top().arrows > maxArrows {
		m.fail(m.at, "arrow functions are nested in parameters more than %d deep", maxArrows)
	}
	m.closeLevel()
}

// closeLevel removes the innermost level.
func (m *meter) closeLevel() {
	top := *m.top()
	m.tokens -= top.tokens
	m.angles -= top.angles
	m.colons -= top.colons
	m.bodies -= top.bodies
	m.commas -= top.commas
	m.levels = m.levels[:len(m.levels)-1]
	m.top().arrows = max(m.top().arrows, top.arrows)
}

// maxGap limits how far ahead nextSign looks.
const maxGap = 4 << 10

// nextSign returns the first sign or letter, or =>, after spaces and comments, or "" if there is
// none within maxGap bytes.
func nextSign(text string) string {
	text = text[:min(len(text), maxGap)]
	for {
		text = strings.TrimLeftFunc(text, func(r rune) bool { return r <= ' ' || r >= utf8.RuneSelf })
		switch {
		case strings.HasPrefix(text, "//"):
			text = text[lineEnd(text):]
		case strings.HasPrefix(text, "/*"):
			_, text, _ = strings.Cut(text[2:], "*/")
		case strings.HasPrefix(text, "=>"):
			return "=>"
		default:
			return text[:min(len(text), 1)]
		}
	}
}

// template reads the text of a template up to its end or to a ${.
func (m *meter) template(text string) int {
	for i := 0; i < len(text); i++ {
		switch {
		case text[i] == '\\':
			i++
		case text[i] == '`':
			m.closeLevel()
			m.prev = value
			return i + 1
		case strings.HasPrefix(text[i:], "${"):
			m.prev = sign
			m.open('{', false)
			return i + 2
		}
	}
	return len(text)
}

// stringEnd returns the offset after the closing quote of a string, 0 if its line has none.
func stringEnd(text string, quote byte) int {
	for i := 1; i < len(text); i++ {
		switch text[i] {
		case quote:
			return i + 1
		case '\\':
			i++
			if strings.HasPrefix(text[i:], "\r\n") {
				i++
			}
		case '\n', '\r':
			return 0
		}
	}
	return 0
}

// slash reads a /, which is a sign or begins a regular expression.
func (m *meter) slash(prev kind, newline bool) int {
	line := m.line()[1:]
	switch {
	case !newline && (prev == value || prev == name && !beforeEither[m.word] || prev == closed):
		return 1
	case prev == sign && m.word != ".", prev == keyword, prev == control:
		m.prev = value
		inClass := false
		for i := 0; i < len(line); i++ {
			switch line[i] {
			case '\\':
				i++
			case '[':
				inClass = true
			case ']':
				inClass = false
			case '/':
				if !inClass {
					return i + 2
				}
			}
		}
	}
	if strings.ContainsAny(line, "/'\"`") {
		m.fail(m.at, "/ may divide here or begin a regular expression: put what it belongs to into parentheses")
	}
	return 1
}
