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

// forms lists the texts that betray a value and that no [view] shows: itself, and
// what encoders that tools use make of it beyond escapes. Forms shorter than
// MinRedacted are left out.
func forms(value string) []string {
	plain := append(lines(value), value, strings.TrimSpace(value))
	plain = append(plain, quoted(value)...)
	for _, form := range distinct(plain) { // escapes that are in the value itself are in no view
		for range maxLayers {
			without := string(render([]byte(form), unescaped))
			if without == form {
				break
			}
			plain, form = append(append(plain, without), lines(without)...), without // such as a key in a JSON document
		}
	}
	out := plain
	// A file with any of these may come as a blob.
	for _, form := range escaped(value) {
		for _, encoding := range []*base64.Encoding{base64.StdEncoding, base64.URLEncoding} {
			out = append(out, encoding.EncodeToString([]byte(form)), encoding.WithPadding(base64.NoPadding).EncodeToString([]byte(form)))
			for offset := range 3 {
				out = append(out, within(encoding, form, offset))
			}
		}
	}
	inHex := hex.EncodeToString([]byte(value))
	out = append(out, inHex, strings.ToUpper(inHex))
	return slices.DeleteFunc(distinct(out), func(form string) bool { return len(form) < head })
}

// quoted are the forms of a value in which signs are doubled or written otherwise
// without an escape: in CSV and SQL, for shells, in forms of the web, in mail, and
// where bytes were taken for characters or characters for bytes.
func quoted(value string) []string {
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

// escaped are the forms that a value has in JSON, HTML and URLs, before they are
// encoded once more.
func escaped(value string) []string {
	out := append(lines(value), value, strings.TrimSpace(value), html.EscapeString(value))
	for _, escape := range []func(string) string{jsonText, jsonHTML, jsonASCII, jsonSlashes} {
		// JSON in a string of JSON is how MCP servers give structured results,
		// and some of those quote the JSON of another service.
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
	return distinct(out)
}

func distinct(texts []string) []string {
	slices.Sort(texts)
	return slices.Compact(texts)
}

// minLine is the shortest line, in bytes, that betrays a value of several lines.
const minLine = 16

// lines are those of a value such as a PEM key, which logs show one by one. The
// lines that all keys share are not among them.
func lines(value string) []string {
	all := strings.Split(value, "\n")
	if len(all) == 1 {
		return nil
	}
	for i, line := range all {
		all[i] = strings.TrimSuffix(line, "\r") // it may be shown with other line ends
	}
	return slices.DeleteFunc(all, func(line string) bool {
		return len(line) < minLine || strings.HasPrefix(line, "-----")
	})
}

// within is what is sure of value in the base64 of a longer text, where offset
// bytes of an unknown group of three come before it: the characters that no
// neighbouring byte has a part in.
func within(encoding *base64.Encoding, value string, offset int) string {
	if value == "" { // a form of a value that is nothing but white space
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

// jsonHTML is the default of Go.
func jsonHTML(s string) string {
	b, _ := json.Marshal(s) // a string always encodes
	return string(b[1 : len(b)-1])
}

// jsonASCII is the default of Python.
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

// jsonSlashes is the default of PHP.
func jsonSlashes(s string) string {
	return strings.ReplaceAll(jsonASCII(s), "/", `\/`)
}

// urlEscapes are what encoders of URLs leave as it is beside letters and digits,
// and whether they write a space as a plus.
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

// lowerHex writes the escapes of a URL as some encoders do, %2f for %2F.
func lowerHex(escaped string) string {
	b := []byte(escaped)
	for i := 0; i+2 < len(b); i++ {
		if b[i] == '%' {
			copy(b[i:], bytes.ToLower(b[i:i+3]))
		}
	}
	return string(b)
}
