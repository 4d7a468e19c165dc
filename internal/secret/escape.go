package secret

import (
	"bytes"
	"html"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// Escapes begin with one of these.
const (
	backslash = '\\'
	percent   = '%'
	ampersand = '&'
)

// hasEscape reports whether text may contain an escape.
func hasEscape(text []byte) bool {
	found := false
	walkUnescaped(text, func(p part) bool {
		found = !p.plain
		return !found
	})
	return found
}

// walkUnescaped is the [walk] of a view with escapes decoded: those of JSON and of
// programming languages (\n \" \x41 \101 \u0041 \U00000041 \u{41}), of shells (a
// backslash before a character), of URLs (%41 %u0041) and of HTML and XML (&lt;
// &#65; &#x41;).
func walkUnescaped(src []byte, yield func(part) bool) {
	out := make([]byte, 0, utf8.UTFMax)
	next := [...]int{-1, -1, -1} // the first of each from done on
	for done := 0; done < len(src); {
		at := len(src)
		for i, c := range [...]byte{backslash, percent, ampersand} {
			if next[i] < done {
				if n := bytes.IndexByte(src[done:], c); n < 0 {
					next[i] = len(src)
				} else {
					next[i] = done + n
				}
			}
			at = min(at, next[i])
		}
		// A character that only looks like the beginning of an escape stays as it is.
		from := done
		shown, size := []byte(nil), 0
		for at < len(src) {
			if shown, size = unescape(out, src[at:]); size > 0 {
				break
			}
			at++
			for at < len(src) && src[at] != backslash && src[at] != percent && src[at] != ampersand {
				at++
			}
		}
		if at > from && !yield(part{start: from, end: at, out: src[from:at], plain: true}) {
			return
		}
		if done = at + size; size > 0 && !yield(part{start: at, end: done, out: shown}) {
			return
		}
	}
}

// unescape decodes the escape at the beginning of src, appends the result to dst, and
// returns the size of the escape, or 0 if there is none.
func unescape(dst, src []byte) (out []byte, size int) {
	if len(src) < 2 {
		return nil, 0
	}
	switch src[0] {
	case backslash:
		return unescapeBackslash(dst, src)
	case percent:
		if src[1] == 'u' {
			return hexRune(dst, src, 2, 4)
		}
		return hexByte(dst, src, 1)
	default:
		return unescapeEntity(dst, src)
	}
}

// controlEscapes maps a letter after a backslash to the character that it stands for.
var controlEscapes = [256]byte{'n': '\n', 't': '\t', 'r': '\r', 'b': '\b', 'f': '\f', 'v': '\v', 'a': '\a', 'e': 0x1b, 'E': 0x1b}

func unescapeBackslash(dst, src []byte) ([]byte, int) {
	switch c := src[1]; {
	case c == '"' || c == backslash:
		return append(dst, c), 2
	case c == 'u' && len(src) > 2 && src[2] == '{':
		end := bytes.IndexByte(src[:min(len(src), len(`\u{00000000}`))], '}')
		if end < 0 {
			return nil, 0
		}
		out, size := hexRune(dst, src, 3, end-3)
		return out, size + min(size, 1)
	case c == 'u':
		return surrogates(dst, src)
	case c == 'U':
		return hexRune(dst, src, 2, 8)
	case c == 'x':
		return hexByte(dst, src, 2)
	case '0' <= c && c <= '3' && len(src) >= 4 && isOctal(src[2]) && isOctal(src[3]):
		return append(dst, (c-'0')<<6|(src[2]-'0')<<3|(src[3]-'0')), 4
	case controlEscapes[c] != 0:
		return append(dst, controlEscapes[c]), 2
	case '!' <= c && c <= '/', ':' <= c && c <= '@', '[' <= c && c <= '`', '{' <= c && c <= '~', c == ' ':
		return append(dst, c), 2
	}
	return nil, 0
}

func isOctal(c byte) bool { return '0' <= c && c <= '7' }

// surrogates decodes \uXXXX, and also the following one if both form a surrogate pair.
func surrogates(dst, src []byte) ([]byte, int) {
	high, ok := hexNumber(src, 2, 4)
	if !ok {
		return nil, 0
	}
	if utf16.IsSurrogate(high) && len(src) >= 12 && src[6] == backslash && src[7] == 'u' {
		if low, ok := hexNumber(src, 8, 4); ok {
			if r := utf16.DecodeRune(high, low); r != utf8.RuneError {
				return utf8.AppendRune(dst, r), 12
			}
		}
	}
	return utf8.AppendRune(dst, high), 6
}

func hexRune(dst, src []byte, at, digits int) ([]byte, int) {
	r, ok := hexNumber(src, at, digits)
	if !ok {
		return nil, 0
	}
	return utf8.AppendRune(dst, r), at + digits
}

func hexByte(dst, src []byte, at int) ([]byte, int) {
	n, ok := hexNumber(src, at, 2)
	if !ok {
		return nil, 0
	}
	return append(dst, byte(n)), at + 2
}

func hexNumber(src []byte, at, digits int) (n rune, ok bool) {
	if digits < 1 || len(src) < at+digits {
		return 0, false
	}
	for _, c := range src[at : at+digits] {
		d := hexDigit[c]
		if d == noDigit {
			return 0, false
		}
		n = n<<4 | rune(d)
	}
	return n, true
}

const noDigit = 0xff

// hexDigit maps a character to its value as a hexadecimal digit.
var hexDigit = func() (digits [256]byte) {
	for i := range digits {
		digits[i] = noDigit
		if n, err := strconv.ParseUint(string(rune(i)), 16, 8); err == nil && i < utf8.RuneSelf {
			digits[i] = byte(n)
		}
	}
	return digits
}()

// maxEntity is the length of the longest entity, including & and ;.
const maxEntity = 33

func unescapeEntity(dst, src []byte) ([]byte, int) {
	if c := src[1] | 0x20; src[1] != '#' && (c < 'a' || c > 'z') {
		return nil, 0
	}
	end := bytes.IndexByte(src[:min(len(src), maxEntity)], ';')
	if end < 0 || !isEntity(src[1:end]) {
		return nil, 0
	}
	text := string(src[:end+1])
	shown := html.UnescapeString(text)
	if shown == text || len(shown) > 1 && shown[len(shown)-1] == ';' { // no entity, or a longer name begins with one
		return nil, 0
	}
	return append(dst, shown...), end + 1
}

// unfinishedEscape returns the index of the escape that is cut off at the end of text,
// or len(text) if there is none.
func unfinishedEscape(text []byte) int {
	at := openEscape(text)
	if at == len(text) || text[at] == backslash {
		return at
	}
	first := at
	for first > 0 && text[first-1] == backslash {
		first--
	}
	return at - (at-first)%2 // an odd number of backslashes before it: the last one escapes it
}

// openEscape returns the index of the last escape if more characters could complete or
// change it, and len(text) otherwise.
func openEscape(text []byte) int {
	for at := len(text) - 1; at >= max(0, len(text)-maxEntity); at-- {
		rest, cut := text[at:], false
		switch text[at] {
		case ampersand:
			cut = len(rest) == 1 || isEntity(rest[1:])
		case percent:
			cut = isHexUpTo(rest[1:], 2) || len(rest) > 1 && rest[1] == 'u' && isHexUpTo(rest[2:], 4)
		case backslash:
			// Backslashes in a row are read in pairs, from the first.
			first := at
			for first > 0 && text[first-1] == backslash {
				first--
			}
			at = first + (at-first)/2*2
			cut = mayExtendBackslash(text[at:])
		default:
			continue
		}
		if cut {
			return at
		}
		return len(text)
	}
	return len(text)
}

// isHexUpTo reports whether text is fewer than the required number of digits.
func isHexUpTo(text []byte, digits int) bool {
	_, ok := hexNumber(text, 0, len(text))
	return len(text) < digits && (ok || len(text) == 0)
}

func isEntity(name []byte) bool {
	for i, c := range name {
		letter := c|0x20 >= 'a' && c|0x20 <= 'z' || '0' <= c && c <= '9'
		if !letter && (i > 0 || c != '#') {
			return false
		}
	}
	return true
}

// mayExtendBackslash reports whether more characters could complete or change the escape
// of rest, which begins with a backslash.
func mayExtendBackslash(rest []byte) bool {
	if len(rest) == 1 {
		return true
	}
	switch c, digits := rest[1], rest[2:]; {
	case c == 'u' && len(digits) > 0 && digits[0] == '{':
		return isHexUpTo(digits[1:], 9)
	case c == 'u' && len(digits) >= 4:
		high, ok := hexNumber(digits, 0, 4)
		return ok && utf16.IsSurrogate(high) && len(rest) < 12 && (len(rest) == 6 || rest[6] == backslash)
	case c == 'u':
		return isHexUpTo(digits, 4)
	case c == 'U':
		return isHexUpTo(digits, 8)
	case c == 'x':
		return isHexUpTo(digits, 2)
	case '0' <= c && c <= '3':
		return len(digits) == 0 || len(digits) == 1 && isOctal(digits[0])
	}
	return false
}
