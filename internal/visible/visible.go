// Package visible escapes characters that people cannot see or that change how the text around
// them looks, so that what a person reads before a decision is what runs.
package visible

import (
	"fmt"
	"strings"
	"unicode"
)

// Text returns text with its invisible and misleading characters written as \u202e or
// \U000e0041: control characters other than line ends and tabs, characters that change the
// direction of text, that have no width, or that look like a space but are none, tags,
// variation selectors, private use and characters that are not assigned. Invalid UTF-8 is
// written as \xff.
func Text(text string) string {
	if !needsEscape(text) {
		return text
	}
	var b strings.Builder
	for at := 0; at < len(text); {
		r, size := decode(text[at:])
		switch {
		case r == unicode.ReplacementChar && size == 1:
			fmt.Fprintf(&b, `\x%02x`, text[at])
		case !isHidden(r):
			b.WriteString(text[at : at+size])
		default:
			b.WriteString(escape(r))
		}
		at += size
	}
	return b.String()
}

// JSON returns a JSON document with the same value in which such characters are JSON escapes.
// They occur only in strings: outside of them JSON permits only spaces, line ends and tabs.
func JSON(document []byte) []byte {
	text := string(document)
	if !needsEscape(text) {
		return document
	}
	var b strings.Builder
	for at := 0; at < len(text); {
		r, size := decode(text[at:])
		switch {
		case !isHidden(r) || r == unicode.ReplacementChar && size == 1:
			b.WriteString(text[at : at+size])
		case r > 0xffff:
			high, low := (r-0x10000)>>10+0xd800, (r-0x10000)&0x3ff+0xdc00
			fmt.Fprintf(&b, `\u%04x\u%04x`, high, low)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
		at += size
	}
	return []byte(b.String())
}

func decode(text string) (r rune, size int) {
	for i, c := range text {
		if i > 0 {
			return r, i
		}
		r = c
	}
	return r, len(text)
}

func escape(r rune) string {
	if r > 0xffff {
		return fmt.Sprintf(`\U%08x`, r)
	}
	return fmt.Sprintf(`\u%04x`, r)
}

func needsEscape(text string) bool {
	for i := range len(text) {
		if c := text[i]; c >= 0x7f || c < ' ' && c != '\n' && c != '\t' {
			return true // it may be one; Text looks at runes
		}
	}
	return false
}

// blankLetters are letters and marks that are invisible or look like a space.
var blankLetters = &unicode.RangeTable{R16: []unicode.Range16{
	{Lo: 0x034f, Hi: 0x034f, Stride: 1}, // combining grapheme joiner
	{Lo: 0x115f, Hi: 0x1160, Stride: 1}, // Hangul fillers
	{Lo: 0x17b4, Hi: 0x17b5, Stride: 1}, // Khmer inherent vowels
	{Lo: 0x180b, Hi: 0x180f, Stride: 1}, // Mongolian selectors
	{Lo: 0x2800, Hi: 0x2800, Stride: 1}, // blank Braille pattern
	{Lo: 0x3164, Hi: 0x3164, Stride: 1}, // Hangul filler
	{Lo: 0xfe00, Hi: 0xfe0f, Stride: 1}, // variation selectors
	{Lo: 0xffa0, Hi: 0xffa0, Stride: 1}, // half-width Hangul filler
	{Lo: 0xfffc, Hi: 0xfffc, Stride: 1}, // object replacement
}, R32: []unicode.Range32{
	{Lo: 0x1d159, Hi: 0x1d159, Stride: 1}, // null notehead
	{Lo: 0xe0000, Hi: 0xe0fff, Stride: 1}, // tags, further variation selectors
}}

// isHidden reports whether a character must be escaped.
func isHidden(r rune) bool {
	switch {
	case r < 0x7f:
		return r < ' ' && r != '\n' && r != '\t'
	case unicode.In(r, unicode.Cc, unicode.Cf, unicode.Co, unicode.Cs, unicode.Zl, unicode.Zp, blankLetters):
		return true
	case unicode.Is(unicode.Zs, r):
		return r != 0x00a0 && r != 0x202f && r != 0x3000 // written in French and in Chinese
	default:
		return !unicode.IsGraphic(r) // not assigned
	}
}
