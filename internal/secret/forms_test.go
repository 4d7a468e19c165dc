package secret_test

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"html"
	"mime/quotedprintable"
	"net/url"
	"strings"
	"testing"
	"unicode/utf16"

	"pgregory.net/rapid"

	"github.com/toolroom/toolroom/internal/secret"
)

// each writes every byte with a format.
func each(format, value string) string {
	var out strings.Builder
	for _, c := range []byte(value) {
		fmt.Fprintf(&out, format, c)
	}
	return out.String()
}

// units writes every UTF-16 unit with a format.
func units(format, value string) string {
	var out strings.Builder
	for _, c := range utf16.Encode([]rune(value)) {
		fmt.Fprintf(&out, format, c)
	}
	return out.String()
}

// some escapes every nth byte.
func some(n int, format, value string) string {
	var out strings.Builder
	for i, c := range []byte(value) {
		if i%n == 0 {
			fmt.Fprintf(&out, format, c)
		} else {
			out.WriteByte(c)
		}
	}
	return out.String()
}

func wrapped(text string, width int, end string) string {
	var out strings.Builder
	for ; len(text) > width; text = text[width:] {
		out.WriteString(text[:width] + end)
	}
	return out.String() + text
}

func inJSON(value string) string {
	text, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	return string(text)
}

// encodings are those that tools make of what they show, by name.
var encodings = map[string]func(string) string{
	"plain":                     func(v string) string { return v },
	"JSON":                      func(v string) string { return strings.Trim(inJSON(v), `"`) },
	"JSON in JSON":              func(v string) string { return inJSON(inJSON(v)) },
	"JSON in JSON in JSON":      func(v string) string { return inJSON(inJSON(inJSON(v))) },
	"JSON with slashes escaped": func(v string) string { return strings.ReplaceAll(inJSON(v), "/", `\/`) },
	"all \\u00xx":               func(v string) string { return units(`\u%04x`, v) },
	"all \\u00XX":               func(v string) string { return units(`\u%04X`, v) },
	"all \\u00xx in JSON":       func(v string) string { return inJSON(units(`\u%04x`, v)) },
	"all \\xxx":                 func(v string) string { return each(`\x%02x`, v) },
	"all \\xXX":                 func(v string) string { return each(`\x%02X`, v) },
	"all octal":                 func(v string) string { return each(`\%03o`, v) },
	"all \\u{x}":                func(v string) string { return units(`\u{%x}`, v) },
	"all \\U000000xx":           func(v string) string { return units(`\U%08x`, v) },
	"some \\u00xx":              func(v string) string { return some(3, `\u%04x`, v) },
	"some \\xxx":                func(v string) string { return some(2, `\x%02x`, v) },
	"Go's %q":                   func(v string) string { return fmt.Sprintf("%q", v) },
	"Go's %+q":                  func(v string) string { return fmt.Sprintf("%+q", v) },
	"Go's %x":                   func(v string) string { return fmt.Sprintf("%x", v) },
	"Go's % x":                  func(v string) string { return fmt.Sprintf("% x", v) },
	"Go's %# x":                 func(v string) string { return fmt.Sprintf("%# x", v) },
	"Go's []byte":               func(v string) string { return fmt.Sprintf("%#v", []byte(v)) },
	"Python's repr":             func(v string) string { return "'" + strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(v) + "'" },
	"Python's repr of bytes":    func(v string) string { return "b'" + strings.ReplaceAll(html.UnescapeString(v), `\`, `\\`) + "'" },
	"Python's ascii":            func(v string) string { return strings.ReplaceAll(v, `\`, `\\`) },
	"query":                     url.QueryEscape,
	"path":                      url.PathEscape,
	"query in lower case":       func(v string) string { return strings.ToLower(each("%%%02x", v)) },
	"all %XX":                   func(v string) string { return each("%%%02X", v) },
	"some %XX":                  func(v string) string { return some(2, "%%%02X", v) },
	"one %xx":                   func(v string) string { return some(len(v), "%%%02x", v) },
	"%XX twice":                 func(v string) string { return url.QueryEscape(each("%%%02X", v)) },
	"%uXXXX":                    func(v string) string { return units("%%u%04X", v) },
	"HTML":                      html.EscapeString,
	"HTML with names": func(v string) string {
		return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;", "'", "&apos;", "/", "&sol;", "+", "&plus;", "=", "&equals;").Replace(v)
	},
	"HTML twice":        func(v string) string { return html.EscapeString(html.EscapeString(v)) },
	"all &#d;":          func(v string) string { return codes("&#%d;", v) },
	"all &#xh;":         func(v string) string { return codes("&#x%x;", v) },
	"all &#x00H;":       func(v string) string { return codes("&#x%06X;", v) },
	"all &#xh; in JSON": func(v string) string { return inJSON(codes("&#x%x;", v)) },
	"XML":               func(v string) string { var out bytes.Buffer; _ = xml.EscapeText(&out, []byte(v)); return out.String() },
	"base64":            func(v string) string { return base64.StdEncoding.EncodeToString([]byte(v)) },
	"base64, raw":       func(v string) string { return base64.RawStdEncoding.EncodeToString([]byte(v)) },
	"base64url":         func(v string) string { return base64.URLEncoding.EncodeToString([]byte(v)) },
	"base64url, raw":    func(v string) string { return base64.RawURLEncoding.EncodeToString([]byte(v)) },
	"base64 after 1":    func(v string) string { return base64.StdEncoding.EncodeToString([]byte("u" + v + "\n")) },
	"base64 after 2":    func(v string) string { return base64.StdEncoding.EncodeToString([]byte("u:" + v + "\n")) },
	"base64 in 76 columns": func(v string) string {
		return wrapped(base64.StdEncoding.EncodeToString([]byte(strings.Repeat("x", 47)+v+v)), 76, "\n")
	},
	"base64 in 76 columns, CRLF": func(v string) string {
		return wrapped(base64.StdEncoding.EncodeToString([]byte(strings.Repeat("x", 50)+v+v)), 76, "\r\n")
	},
	"base64 in 64 columns": func(v string) string {
		return wrapped(base64.StdEncoding.EncodeToString([]byte(strings.Repeat("x", 40)+v+v)), 64, "\n")
	},
	"base64 in 20 columns": func(v string) string { return wrapped(base64.StdEncoding.EncodeToString([]byte(v)), 20, "\n") },
	"base64 in 64 columns, in JSON": func(v string) string {
		return inJSON(wrapped(base64.StdEncoding.EncodeToString([]byte(strings.Repeat("x", 40)+v+v)), 64, "\n"))
	},
	"base64 in 64 columns, in YAML": func(v string) string {
		return wrapped(base64.StdEncoding.EncodeToString([]byte(strings.Repeat("x", 40)+v+v)), 64, "\n    ")
	},
	"base64 in a URL":      func(v string) string { return url.QueryEscape(base64.StdEncoding.EncodeToString([]byte(v))) },
	"base64 of JSON":       func(v string) string { return base64.StdEncoding.EncodeToString([]byte(inJSON(v))) },
	"base64 of HTML":       func(v string) string { return base64.StdEncoding.EncodeToString([]byte(html.EscapeString(v))) },
	"hex":                  func(v string) string { return hex.EncodeToString([]byte(v)) },
	"HEX":                  func(v string) string { return strings.ToUpper(hex.EncodeToString([]byte(v))) },
	"hex with colons":      func(v string) string { return strings.TrimSuffix(each("%02x:", v), ":") },
	"HEX with colons":      func(v string) string { return strings.TrimSuffix(each("%02X:", v), ":") },
	"hex with spaces":      func(v string) string { return strings.TrimSpace(each("%02x ", v)) },
	"hex with dashes":      func(v string) string { return strings.Trim(each("%02x-", v), "-") },
	"0x with commas":       func(v string) string { return strings.TrimSuffix(each("0x%02x, ", v), ", ") },
	"hex in lines":         func(v string) string { return wrapped(strings.TrimSpace(each("%02x ", v)), 48, "\n ") },
	"hex by two":           func(v string) string { return wrapped(hex.EncodeToString([]byte(v)), 4, " ") },
	"hex in 60 columns":    func(v string) string { return wrapped(hex.EncodeToString([]byte(v+v)), 60, "\n") },
	"shell, single quotes": func(v string) string { return "'" + strings.ReplaceAll(v, "'", `'\''`) + "'" },
	"shell, both quotes":   func(v string) string { return "'" + strings.ReplaceAll(v, "'", `'"'"'`) + "'" },
	"shell, double quotes": func(v string) string {
		return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "$", `\$`, "`", "\\`").Replace(v) + `"`
	},
	"shell, backslashes": func(v string) string { return backslashed(v) },
	"SQL":                func(v string) string { return "'" + strings.ReplaceAll(v, "'", "''") + "'" },
	"CSV":                func(v string) string { return `"` + strings.ReplaceAll(v, `"`, `""`) + `"` },
	"CSV in JSON":        func(v string) string { return inJSON(`"` + strings.ReplaceAll(v, `"`, `""`) + `"`) },
	"mail":               func(v string) string { return quotedPrintable(v) },
}

func codes(format, value string) string {
	var out strings.Builder
	for _, r := range value {
		fmt.Fprintf(&out, format, r)
	}
	return out.String()
}

func backslashed(v string) string {
	var out strings.Builder
	for _, r := range v {
		if r < 0x80 && !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:", r) {
			out.WriteByte('\\')
		}
		out.WriteRune(r)
	}
	return out.String()
}

func quotedPrintable(v string) string {
	var out bytes.Buffer
	w := quotedprintable.NewWriter(&out)
	_, _ = w.Write([]byte(v))
	_ = w.Close()
	return out.String()
}

// The values of tokens, passwords and keys.
var planted = []string{
	"ghp_Zk81mQ0vTyB3xW9aLr7NcE2dHf5sJg4uKpQe", `Xq7_9Zt-Wv&4'k"mP<2>rL/5+Qs=uB8e`, `p/ss<w"ö>+rd1 %41&lt;`, "hunter22", `\u0041\n%2B&amp;'"=`,
}

func TestEachFormOfASecretIsRedactedAsAWholeAndInPieces(t *testing.T) {
	t.Parallel()
	for i, value := range planted {
		m := redactor(map[string]string{"s/v": value})
		for name, encode := range encodings {
			form := encode(value)
			text := "before " + form + " after"
			got := redacted(m, text)
			if !strings.Contains(got, "[secret s/v]") || leaks(form, got) {
				t.Errorf("%d %s: %s became %s", i, name, form, got)
				continue
			}
			for _, size := range []int{1, 2, 3, 7, 16, 61} {
				if s := stream(t, m, text, size); s != got {
					t.Errorf("%d %s: as a stream of %d %s became %s, as a whole %s", i, name, size, text, s, got)
					break
				}
			}
		}
	}
}

// leaks reports whether a part of a form as long as half of it is left.
func leaks(form, got string) bool {
	form, got = strings.ReplaceAll(form, "eHh4", ""), strings.ReplaceAll(got, "eHh4", "") // what was put before
	n := max(8, len(form)/2)
	for at := 0; at+n <= len(form); at++ {
		if strings.Contains(got, form[at:at+n]) {
			return true
		}
	}
	return false
}

func TestAMixtureOfFormsIsRedactedTheSameAsAStream(t *testing.T) {
	t.Parallel()
	const value = `Xq7_9Zt-W&4'k"mP/5+`
	m := redactor(map[string]string{"s/v": value, "s/w": "hunter22"})
	var names []string
	for name := range encodings {
		names = append(names, name)
	}
	rapid.Check(t, func(t *rapid.T) {
		var text strings.Builder // hex that touches other hex has no beginning that one can tell
		for _, name := range rapid.SliceOfN(rapid.SampledFrom(names), 1, 4).Draw(t, "names") {
			form := encodings[name](rapid.SampledFrom([]string{value, "hunter22", "hXnter22", "plain words, 12:30"}).Draw(t, "value"))
			from := rapid.IntRange(0, len(form)).Draw(t, "from")
			to := rapid.IntRange(from, len(form)).Draw(t, "to")
			if rapid.Bool().Draw(t, "whole") {
				from, to = 0, len(form)
			}
			text.WriteString(form[from:to] + rapid.SampledFrom([]string{"_", " ", "\n", "\r\n", `\`, "%", "&", ":", `z\`}).Draw(t, "between"))
		}
		in := "- " + text.String()
		want := redacted(m, in)
		var out bytes.Buffer
		w := m.Writer(&out)
		for rest := in; rest != ""; {
			n := min(len(rest), rapid.IntRange(1, 40).Draw(t, "cut"))
			_, _ = w.Write([]byte(rest[:n]))
			rest = rest[n:]
		}
		_ = w.Close()
		if out.String() != want {
			t.Fatalf("%q became %q, as a whole %q", in, &out, want)
		}
	})
}

func TestTextWithoutASecretStaysTheSameBytes(t *testing.T) {
	t.Parallel()
	m := redactor(map[string]string{"s/v": planted[1], "s/w": "hunter22"})
	for name, encode := range encodings {
		text := []byte(`{"a":` + inJSON(encode("hXnter21 is not the known value")) + `}`)
		if got := m.Redact(text); &got[0] != &text[0] {
			t.Errorf("%s: %s became %s", name, text, got)
		}
	}
}

func TestWhatAReferenceStoodForLongAgoIsForgotten(t *testing.T) {
	t.Parallel()
	var m secret.Redactor
	ref := secret.Ref{Scope: "s", Name: "v"}
	value := func(n int) string { return fmt.Sprintf("value-%06d", n) }
	for n := range 100 {
		m.Learn(map[secret.Ref]string{ref: value(n)})
		for _, kept := range []int{n, max(0, n-1), max(0, n-2)} {
			if got := redacted(&m, value(kept)); got != "[secret s/v]" {
				t.Fatalf("after %d: %s became %s", n, value(kept), got)
			}
		}
	}
	if got := redacted(&m, value(1)); got != value(1) {
		t.Errorf("%s became %s", value(1), got)
	}
	// What another reference stands for too stays.
	m.Learn(map[secret.Ref]string{{Scope: "s", Name: "w"}: value(99)})
	for n := 100; n < 200; n++ {
		m.LearnAll(ref, []string{value(n), value(1000 + n)})
	}
	for text, want := range map[string]string{
		value(99): "[secret s/v]", value(199): "[secret s/v]", value(1199): "[secret s/v]", value(1197): "[secret s/v]", value(1150): value(1150),
	} {
		if got := redacted(&m, text); got != want {
			t.Errorf("%s became %s, want %s", text, got, want)
		}
	}
}

func TestAStreamHoldsBackLittleWhateverComes(t *testing.T) {
	t.Parallel()
	m := redactor(map[string]string{"s/v": planted[0], "s/w": "hunter22"})
	for _, unit := range []string{"&", "%", `\`, `\\&`, "&a", "&amp;", "%2", "%25", `\u00`, `\u0026`, `\ud83d`, "68:", "68:75:", "6", "6 ", "\n", "\r\n", "abcdefghijklmnopqrst\n", "hunter2", "h\\x75", "hunter2&#"} {
		var out bytes.Buffer
		w := m.Writer(&out)
		for range 3000 {
			_, _ = w.Write([]byte(unit))
		}
		if held := 3000*len(unit) - out.Len(); held > 1000 {
			t.Errorf("of %q %d bytes are held back", unit, held)
		}
		_ = w.Close()
		if got := out.String(); got != strings.Repeat(unit, 3000) {
			t.Errorf("%q became %.200s", unit, got)
		}
	}
}

func BenchmarkLearn(b *testing.B) {
	for _, known := range []int{10, 250, 1250} {
		b.Run(fmt.Sprint(known, " known"), func(b *testing.B) {
			var m secret.Redactor
			token := func(n int) string { return strings.Repeat(fmt.Sprintf("%08x", n), 100) }
			for n := range known {
				m.Learn(map[secret.Ref]string{{Scope: "s", Name: fmt.Sprint(n)}: token(n)})
			}
			n := known
			for b.Loop() {
				n++
				m.Learn(map[secret.Ref]string{{Scope: "s", Name: "0"}: token(n)})
			}
		})
	}
}
