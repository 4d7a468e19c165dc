package search

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// maxWord is the length in runes at which a word is cut. What is longer is
// data, not language.
const maxWord = 64

// splitWords splits text into lower-case words. Identifiers are split at
// punctuation, at changes of case and between letters and digits; a short
// identifier is kept whole as well, so that GitHub meets github and sha256 is
// not sha1. Scripts written without spaces give overlapping pairs of characters.
func splitWords(text string) []string {
	var out []string
	runes := []rune(foldText(text))
	for start := 0; start < len(runes); {
		if !unicode.IsLetter(runes[start]) && !unicode.IsDigit(runes[start]) {
			start++
			continue
		}
		dense := isDense(runes[start])
		end := start + 1
		for end < len(runes) && isWordRune(runes[end]) && isDense(runes[end]) == dense {
			end++
		}
		if dense {
			out = appendPairs(out, runes[start:end])
		} else {
			out = appendPieces(out, runes[start:end])
		}
		start = end
	}
	return out
}

// appendPairs appends the overlapping pairs of characters of run, or its only
// character.
func appendPairs(out []string, run []rune) []string {
	if len(run) == 1 {
		return append(out, string(run))
	}
	for i := range len(run) - 1 {
		out = append(out, string(run[i:i+2]))
	}
	return out
}

// appendPieces appends the words of which the identifier run is made. Digits
// beside letters are no word of their own, only part of the whole.
func appendPieces(out []string, run []rune) []string {
	pieces, start := 0, 0
	for end := 1; end <= len(run); end++ {
		if end < len(run) && !isBoundary(run, end) {
			continue
		}
		whole := start == 0 && end == len(run)
		if whole || !unicode.IsDigit(run[start]) {
			out = append(out, lower(run[start:end]))
		}
		pieces++
		start = end
	}
	if pieces > 1 && pieces <= 3 && len(run) <= maxWord {
		out = append(out, lower(run))
	}
	return out
}

// isBoundary reports whether a new word starts at run[i]: fooBar, HTTPServer, utf8.
func isBoundary(run []rune, i int) bool {
	prev, next := run[i-1], run[i]
	switch {
	case unicode.IsDigit(prev) != unicode.IsDigit(next):
		return true
	case unicode.IsUpper(next):
		return unicode.IsLower(prev) ||
			unicode.IsUpper(prev) && i+1 < len(run) && unicode.IsLower(run[i+1])
	}
	return false
}

func lower(run []rune) string {
	return strings.ToLower(string(run[:min(len(run), maxWord)]))
}

func isWordRune(r rune) bool {
	return unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.IsMark(r)
}

// isDense reports whether r belongs to a script whose words are not, or not
// usefully, separated by spaces.
func isDense(r rune) bool {
	return r >= 0x0E00 && (r == 'ー' || unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana,
		unicode.Hangul, unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar))
}

func isNumber(word string) bool {
	for _, r := range word {
		if !unicode.IsDigit(r) {
			return false
		}
	}
	return true
}

// numbers are the runs of digits in text.
func numbers(text string) []string {
	if strings.IndexFunc(text, unicode.IsDigit) < 0 {
		return nil
	}
	var found []string
	for _, run := range strings.FieldsFunc(foldText(text), func(r rune) bool { return !unicode.IsDigit(r) }) {
		if utf8.RuneCountInString(run) <= maxWord {
			found = append(found, run)
		}
	}
	return found
}

// numberTerm is a number as a term of its own: no word begins so.
func numberTerm(number string) string { return "#" + number }

// maxPhrase is the length in words of the longest phrase.
const maxPhrase = 3

// phraseMark precedes each word of a phrase.
const phraseMark = '_'

// phraseTerm is a phrase as a term of its own: no word begins so.
func phraseTerm(words []string) string {
	var b strings.Builder
	for _, w := range words {
		b.WriteByte(phraseMark)
		b.WriteString(stem(w))
	}
	return b.String()
}

// foldText makes compatible forms equal (full width, ligatures, composed or not)
// and drops the accents of alphabets. Marks beyond those carry vowels or voicing.
func foldText(text string) string {
	if isASCII(text) {
		return text
	}
	bare := strings.Map(func(r rune) rune {
		if r >= 0x0300 && r <= 0x036F { // Combining Diacritical Marks
			return -1
		}
		return r
	}, norm.NFKD.String(text))
	return norm.NFKC.String(bare)
}

func isASCII(text string) bool {
	for i := range len(text) {
		if text[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}
