package catalog

import (
	"regexp"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"github.com/toolroom/toolroom/internal/pattern"
)

// hiddenPart is a part of a text that people do not see: what is wrong, and an excerpt.
type hiddenPart struct{ says, excerpt string }

// hiddenText finds text that people do not see.
func hiddenText(text string) []hiddenPart {
	var out []hiddenPart
	seen := map[string]bool{}
	rightToLeft := sync.OnceValue(func() bool { return strings.ContainsFunc(text, isRightToLeft) })
	for i, r := range text {
		if ' ' <= r && r < 0x7f {
			continue
		}
		says := invisibleReason(text, i, r, rightToLeft)
		if says != "" && !seen[says] {
			seen[says] = true
			out = append(out, hiddenPart{says, excerptAround(text, i, i+utf8.RuneLen(r))})
		}
	}
	shown := text
	if strings.ContainsRune(text, '`') {
		shown = codePattern().ReplaceAllStringFunc(text, func(span string) string { return strings.Repeat("`", len(span)) })
	}
	for _, at := range commentPattern().FindAllStringIndex(shown, -1) {
		// A single word is the name of a mark, such as <!-- more -->.
		if inside := shown[at[0]+len("<!--") : at[1]]; len(strings.Fields(strings.TrimSuffix(inside, "-->"))) > 1 || len(inside) > 24 {
			out = append(out, hiddenPart{"a comment hides text", excerptAround(text, at[0], at[1])})
			break
		}
	}
	for _, p := range concealments {
		if at := p.pattern().FindStringIndex(shown); at != nil {
			out = append(out, hiddenPart{p.says, excerptAround(text, at[0], at[1])})
		}
	}
	return out
}

// codePattern matches Markdown code, which is shown as it is written.
var codePattern = pattern.Lazy("(?s)```.*?```|`[^`\n]+`")

// commentPattern matches an HTML comment. A comment without an end hides the rest.
var commentPattern = pattern.Lazy(`(?s)<!--.*?(?:-->|\z)`)

// concealments are further ways to hide printable text. Rows of Markdown tables are excluded
// from the second pattern because they often have much space.
var concealments = []struct {
	pattern func() *regexp.Regexp
	says    string
}{
	{pattern.Lazy(`(?m)^ {0,3}\[[^\]\n]*\]:[ \t]*(?:<>|<?#>?)[ \t]*\n?[ \t]*["'(].*\pL`), "a Markdown comment hides text"},
	{pattern.Lazy(`(?m)^[^|\n]*[ \t\x{00a0}]{100,}[^|\s]`), "text stands far to the right"},
	{pattern.Lazy(`(?:\r?\n[ \t]*){20,}\S`), "text stands far below"},
	{pattern.Lazy(`(?i)<[a-z][^<>]*\sstyle\s*=\s*["'][^"'<>]*(?:display\s*:\s*none|visibility\s*:\s*hidden|font-size\s*:\s*0|opacity\s*:\s*0(?:\.0*)?\s*[;"']|color\s*:\s*(?:white|transparent|#fff))`), "markup hides text"},
	{pattern.Lazy(`(?i)<(?:[a-z][a-z0-9]*\s(?:[^<>]*\s)?hidden[\s>=/]|template\s*>)`), "markup hides text"},
}

// invisibleReason says what is wrong with the rune at an offset, or returns "" if nothing is.
// rightToLeft reports whether the text has letters of a right-to-left script.
func invisibleReason(text string, at int, r rune, rightToLeft func() bool) string {
	const (
		noWidth   = "characters of no width are in the text"
		direction = "characters that turn the direction of writing make text look like another"
		selectors = "variation selectors, which nobody sees, can spell text"
	)
	before, _ := utf8.DecodeLastRuneInString(text[:at])
	switch {
	case r == '\t' || r == '\n' || r == '\r' || r == 0x85:
		return ""
	case r == 0x1b:
		return "a terminal escape hides or changes text"
	case r < 0x20 || 0x7f <= r && r < 0xa0:
		return "a control character is in the text"
	case 0xe0000 <= r && r <= 0xe007f:
		if isFlagTag(text, at) {
			return ""
		}
		return "tag characters, which nobody sees, spell text"
	case r == 0x202d || r == 0x202e:
		return direction
	case 0x202a <= r && r <= 0x202c || 0x2066 <= r && r <= 0x2069, r == 0x200e, r == 0x200f, r == 0x061c:
		if rightToLeft() {
			return ""
		}
		return direction
	case r == 0x200d || r == 0x200c:
		if joinerIsNeeded(text, at, r) {
			return ""
		}
		return noWidth
	case r == 0x00ad: // a place where a word may be divided
		if unicode.IsLetter(before) {
			return ""
		}
		return noWidth
	case r == 0x200b:
		if unicode.In(before, unicode.Thai, unicode.Khmer, unicode.Lao, unicode.Myanmar) {
			return ""
		}
		return noWidth
	case 0x180b <= r && r <= 0x180f:
		if unicode.Is(unicode.Mongolian, before) {
			return ""
		}
		return noWidth
	case 0x17b4 <= r && r <= 0x17b5:
		if unicode.Is(unicode.Khmer, before) {
			return ""
		}
		return noWidth
	case 0x2060 <= r && r <= 0x2065, 0x206a <= r && r <= 0x206f, 0xfff9 <= r && r <= 0xfffb, 0x1d173 <= r && r <= 0x1d17a,
		r == 0xfeff && at > 0, r == 0x115f, r == 0x1160, r == 0x3164, r == 0xffa0, r == 0x034f:
		return noWidth
	case 0xfe00 <= r && r <= 0xfe0f: // one belongs to a symbol
		if before > 0x7f && !unicode.Is(unicode.Variation_Selector, before) || strings.ContainsRune("#*0123456789", before) {
			return ""
		}
		return selectors
	case 0xe0100 <= r && r <= 0xe01ef:
		if unicode.Is(unicode.Han, before) {
			return ""
		}
		return selectors
	case r >= 0xf0000:
		return "characters without a meaning of their own are in the text"
	default:
		return ""
	}
}

func isRightToLeft(r rune) bool {
	return r != 0x061c && unicode.In(r, unicode.Arabic, unicode.Hebrew, unicode.Syriac, unicode.Thaana)
}

// isFlagTag reports whether the tag character at an offset belongs to a flag emoji, such as
// Scotland's.
func isFlagTag(text string, at int) bool {
	before := strings.TrimRightFunc(text[max(0, at-40):at], func(r rune) bool { return 0xe0020 <= r && r <= 0xe007f })
	return strings.HasSuffix(before, "\U0001f3f4") && at-strings.LastIndex(text[:at], "\U0001f3f4") <= 8*4
}

// joinerIsNeeded reports whether the joiner at an offset is legitimate: between parts of an
// emoji, or in a script that uses joiners.
func joinerIsNeeded(text string, at int, r rune) bool {
	before, _ := utf8.DecodeLastRuneInString(strings.TrimSuffix(text[:at], "\ufe0f"))
	after, _ := utf8.DecodeRuneInString(text[at+utf8.RuneLen(r):])
	takesJoiner := func(r rune) bool {
		return r >= 0x1f000 && r <= 0x1faff || r >= 0x2190 && r <= 0x2bff ||
			unicode.In(r, unicode.Arabic, unicode.Devanagari, unicode.Bengali, unicode.Tamil, unicode.Telugu,
				unicode.Kannada, unicode.Malayalam, unicode.Sinhala, unicode.Gujarati, unicode.Gurmukhi, unicode.Oriya, unicode.Mongolian)
	}
	return takesJoiner(before) && takesJoiner(after)
}
