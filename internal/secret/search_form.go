package secret

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"html"
	"slices"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// searchForms returns the texts to search for a value: the value itself and its
// encodings by common encoders, except the escapes that a [view] decodes. It omits forms
// that are shorter than MinRedacted.
func searchForms(value string) []string {
	plain := append(longLines(value), value, strings.TrimSpace(value))
	plain = append(plain, quotedForms(value)...)
	for _, form := range sortUnique(plain) { // views decode escapes that are in the value itself, too
		for range maxLayers {
			without := string(render([]byte(form), walkUnescaped))
			if without == form {
				break
			}
			plain, form = append(append(plain, without), longLines(without)...), without // such as a key in a JSON document
		}
	}
	out := plain
	// A file that contains any of these may be sent as base64.
	for _, form := range escapedForms(value) {
		for _, encoding := range []*base64.Encoding{base64.StdEncoding, base64.URLEncoding} {
			out = append(out, encoding.EncodeToString([]byte(form)), encoding.WithPadding(base64.NoPadding).EncodeToString([]byte(form)))
			for offset := range 3 {
				out = append(out, base64Within(encoding, form, offset))
			}
		}
	}
	inHex := hex.EncodeToString([]byte(value))
	out = append(out, inHex, strings.ToUpper(inHex))
	return slices.DeleteFunc(sortUnique(out), func(form string) bool { return len(form) < headSize })
}

// quotedForms returns the forms of a value in which characters are doubled or replaced
// without an escape: in CSV and SQL, for shells, in web forms, in mail, and after bytes
// were mistaken for characters or characters for bytes.
func quotedForms(value string) []string {
	var out []string
	for _, r := range [...]*strings.Replacer{
		strings.NewReplacer(`"`, `""`), strings.NewReplacer(`'`, `''`),
		strings.NewReplacer(`'`, `'\''`), strings.NewReplacer(`'`, `'"'"'`),
		strings.NewReplacer(" ", "+"),
	} {
		out = append(out, r.Replace(value))
	}
	var mail, chars, octets strings.Builder
	for i := range len(value) {
		if c := value[i]; c == '=' || c >= utf8.RuneSelf {
			fmt.Fprintf(&mail, "=%02X", c)
		} else {
			mail.WriteByte(c)
		}
		chars.WriteRune(rune(value[i]))
	}
	for _, r := range value {
		if r <= 0xff {
			octets.WriteByte(byte(r))
		} else {
			octets.WriteRune(r)
		}
	}
	return append(out, mail.String(), chars.String(), octets.String())
}

// escapedForms returns the forms of a value in JSON, HTML and URLs, which may be encoded
// once more.
func escapedForms(value string) []string {
	out := append(longLines(value), value, strings.TrimSpace(value), html.EscapeString(value))
	for _, escape := range []func(string) string{jsonText, jsonHTML, jsonASCII, jsonSlashes} {
		// MCP servers return structured results as JSON in a JSON string, and some of
		// these quote the JSON of another service.
		text := value
		for range 3 {
			text = escape(text)
			out = append(out, text)
		}
	}
	for _, e := range urlEscapes {
		text := percentEscape(value, e.keep, e.plus)
		out = append(out, text, lowerHex(text))
	}
	return sortUnique(out)
}

func sortUnique(texts []string) []string {
	slices.Sort(texts)
	return slices.Compact(texts)
}

// minLine is the length of the shortest line, in bytes, that is redacted of a value with
// several lines.
const minLine = 16

// longLines returns the lines of a value such as a PEM key, because logs show them one by
// one. It omits short lines and those that all keys share.
func longLines(value string) []string {
	all := strings.Split(value, "\n")
	if len(all) == 1 {
		return nil
	}
	for i, line := range all {
		all[i] = strings.TrimSuffix(line, "\r") // it may be shown with other line endings
	}
	return slices.DeleteFunc(all, func(line string) bool {
		return len(line) < minLine || strings.HasPrefix(line, "-----")
	})
}

// base64Within returns the part of value's base64 that is the same in the base64 of every
// longer text in which value begins offset bytes after a group of three: it omits the
// characters that neighboring bytes influence.
func base64Within(encoding *base64.Encoding, value string, offset int) string {
	if value == "" { // the value is only white space
		return ""
	}
	padded := append(make([]byte, offset), value...)
	text := encoding.WithPadding(base64.NoPadding).EncodeToString(padded)
	if len(padded)%3 != 0 {
		text = text[:len(text)-1]
	}
	if offset > 0 {
		text = text[offset+1:]
	}
	return text
}

func jsonText(s string) string {
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	_ = e.Encode(s) // a string always encodes
	return strings.TrimSuffix(strings.TrimPrefix(strings.TrimSuffix(out.String(), "\n"), `"`), `"`)
}

// jsonHTML encodes as Go does by default.
func jsonHTML(s string) string {
	b, _ := json.Marshal(s) // a string always encodes
	return string(b[1 : len(b)-1])
}

// jsonASCII encodes as Python does by default.
func jsonASCII(s string) string {
	var out strings.Builder
	for _, r := range jsonText(s) {
		switch {
		case r < 0x80:
			out.WriteRune(r)
		case r <= 0xffff:
			fmt.Fprintf(&out, `\u%04x`, r)
		default:
			high, low := utf16.EncodeRune(r)
			fmt.Fprintf(&out, `\u%04x\u%04x`, high, low)
		}
	}
	return out.String()
}

// jsonSlashes encodes as PHP does by default.
func jsonSlashes(s string) string {
	return strings.ReplaceAll(jsonASCII(s), "/", `\/`)
}

// urlEscapes are the characters that URL encoders keep in addition to letters and digits,
// and whether they encode a space as a plus.
var urlEscapes = [...]struct {
	keep string
	plus bool
}{
	{"-_.~", true},                  // Go's QueryEscape, Python's quote_plus
	{"-_.~", false},                 // RFC 3986; PHP's rawurlencode
	{"-_.~/", false},                // Python's quote
	{"-_.~$&+=:@", false},           // Go's PathEscape
	{"-_.~$&+,/:;=@", false},        // Go's URL.EscapedPath
	{"-_.~!*'()", false},            // JavaScript's encodeURIComponent
	{"-_.~!*'();,/?:@&=+$#", false}, // JavaScript's encodeURI
	{"-_.*", true},                  // URLSearchParams, Java's URLEncoder
	{"-_.", true},                   // PHP's urlencode
}

// percentEscape escapes s for a URL.
func percentEscape(s, keep string, plus bool) string {
	var out strings.Builder
	for _, c := range []byte(s) {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', strings.IndexByte(keep, c) >= 0:
			out.WriteByte(c)
		case c == ' ' && plus:
			out.WriteByte('+')
		default:
			fmt.Fprintf(&out, "%%%02X", c)
		}
	}
	return out.String()
}

// lowerHex changes the escapes of a URL to lower case, as some encoders write them: %2f
// for %2F.
func lowerHex(escaped string) string {
	b := []byte(escaped)
	for i := 0; i+2 < len(b); i++ {
		if b[i] == '%' {
			copy(b[i:], bytes.ToLower(b[i:i+3]))
		}
	}
	return string(b)
}
