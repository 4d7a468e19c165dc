package poison

import (
	"encoding/base64"
	"fmt"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/toolroom/toolroom/internal/pattern"
)

type trace struct{ says, excerpt string }

// hidden finds text that people do not see.
func hidden(text string) []trace {
	var out []trace
	seen := map[string]bool{}
	for i, r := range text {
		says := invisible(text, i, r)
		if says != "" && !seen[says] {
			seen[says] = true
			out = append(out, trace{says, around(text, i, i+utf8.RuneLen(r))})
		}
	}
	for _, p := range concealed {
		if at := p.pattern().FindStringIndex(text); at != nil {
			out = append(out, trace{p.says, around(text, at[0], at[1])})
		}
	}
	if decoded := encoded(text); decoded != "" {
		out = append(out, trace{"orders are hidden in base64", decoded})
	}
	return out
}

// concealed are ways to keep printable text out of sight.
var concealed = []struct {
	pattern func() *regexp.Regexp
	says    string
}{
	{pattern.Lazy(`(?s)<!--.{12,}?-->`), "a comment hides text"},
	{pattern.Lazy(`[ \t\x{00a0}]{60,}\S`), "text stands far to the right"},
	{pattern.Lazy(`(?:\r?\n[ \t]*){12,}\S`), "text stands far below"},
	{pattern.Lazy(`(?i)style\s*=\s*["'][^"']*(?:display\s*:\s*none|font-size\s*:\s*0|color\s*:\s*(?:white|transparent))`), "markup hides text"},
}

// invisible says what is wrong with a rune at a place, empty when nothing is.
func invisible(text string, at int, r rune) string {
	switch {
	case r == '\t' || r == '\n' || r == '\r':
		return ""
	case r == 0x1b:
		return "a terminal escape hides or changes text"
	case r < 0x20 || 0x7f <= r && r < 0xa0 && r != 0x85:
		return "a control character is in the text"
	case 0xe0000 <= r && r <= 0xe007f:
		if flagged(text, at) {
			return ""
		}
		return "tag characters, which nobody sees, spell text"
	case 0x202a <= r && r <= 0x202e || 0x2066 <= r && r <= 0x2069:
		return "characters that turn the direction of writing make text look like another"
	case r == 0x200d || r == 0x200c:
		if joins(text, at, r) {
			return ""
		}
		return "characters of no width are in the text"
	case r == 0x200b, 0x2060 <= r && r <= 0x2064, r == 0x00ad, r == 0x180e, r == 0xfeff && at > 0, r == 0x115f, r == 0x1160, r == 0x3164, r == 0xffa0:
		return "characters of no width are in the text"
	case 0xe0100 <= r && r <= 0xe01ef, 0xfe00 <= r && r <= 0xfe0e:
		if before, _ := utf8.DecodeLastRuneInString(text[:at]); unicode.Is(unicode.Han, before) {
			return ""
		}
		return "variation selectors, which nobody sees, can spell text"
	case 0xe000 <= r && r <= 0xf8ff, r >= 0xf0000:
		return "characters without a meaning of their own are in the text"
	default:
		return ""
	}
}

// flagged reports whether tag characters belong to a flag, such as Scotland's.
func flagged(text string, at int) bool {
	before := strings.TrimRightFunc(text[:at], func(r rune) bool { return 0xe0020 <= r && r <= 0xe007f })
	return strings.HasSuffix(before, "\U0001f3f4") && len(text[len(before):at]) <= 7*4
}

// joins reports whether a joiner has work to do: between parts of an emoji, or
// in a script that needs it.
func joins(text string, at int, r rune) bool {
	before, _ := utf8.DecodeLastRuneInString(strings.TrimRight(text[:at], "\ufe0f"))
	after, _ := utf8.DecodeRuneInString(text[at+utf8.RuneLen(r):])
	joined := func(r rune) bool {
		return r >= 0x1f000 && r <= 0x1faff || r >= 0x2190 && r <= 0x2bff ||
			unicode.In(r, unicode.Arabic, unicode.Devanagari, unicode.Bengali, unicode.Tamil, unicode.Telugu,
				unicode.Kannada, unicode.Malayalam, unicode.Sinhala, unicode.Gujarati, unicode.Gurmukhi, unicode.Oriya, unicode.Mongolian)
	}
	return joined(before) && joined(after)
}

// unhide is the text as a model may read it: without what hides in it, and with
// what is spelled in tag characters.
func unhide(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case 0xe0020 <= r && r <= 0xe007e:
			return r - 0xe0000
		case r == '\n' || r == '\t' || r == '\r':
			return r
		case unicode.Is(unicode.Cf, r), unicode.IsControl(r), unicode.Is(unicode.Mn, r) && 0xfe00 <= r && r <= 0xfe0f:
			return -1
		default:
			return folded(r)
		}
	}, text)
}

var base64Run = pattern.Lazy(`[A-Za-z0-9+/_-]{32,}={0,2}`)

// encoded gives orders that are hidden in base64.
func encoded(text string) string {
	for _, run := range base64Run().FindAllString(text, 8) {
		run = strings.TrimRight(run, "=")
		for _, encoding := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
			decoded, err := encoding.DecodeString(run)
			if err == nil && utf8.Valid(decoded) && len(orders(string(decoded))) > 0 {
				return around(string(decoded), 0, len(decoded))
			}
		}
	}
	return ""
}

// Visible writes hidden characters as escapes.
func Visible(text string) string {
	var out strings.Builder
	for _, r := range text {
		if r == ' ' || unicode.IsGraphic(r) && !unicode.Is(unicode.Cf, r) && !unicode.Is(unicode.Co, r) && (r < 0xfe00 || r > 0xfe0f) {
			out.WriteRune(r)
			continue
		}
		fmt.Fprintf(&out, `\u{%x}`, r)
	}
	return out.String()
}
