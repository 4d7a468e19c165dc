package secret_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolroom/toolroom/internal/secret"
)

func redactor(values map[string]string) *secret.Redactor {
	var m secret.Redactor
	learned := map[secret.Ref]string{}
	for path, value := range values {
		ref, err := secret.ParsePath(path)
		if err != nil {
			panic(err)
		}
		learned[ref] = value
	}
	m.Learn(learned)
	return &m
}

func redacted(m *secret.Redactor, text string) string { return string(m.Redact([]byte(text))) }

func TestRedactReplacesEveryFormOfAValue(t *testing.T) {
	t.Parallel()
	const value = "p/ss<w\"ö>+rd\\1"
	m := redactor(map[string]string{"db/password": value})
	escaped, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	for name, form := range map[string]string{
		"plain":                  value,
		"base64":                 base64.StdEncoding.EncodeToString([]byte(value)),
		"base64 without padding": base64.RawStdEncoding.EncodeToString([]byte(value)),
		"base64 for URLs":        base64.URLEncoding.EncodeToString([]byte(value)),
		"base64 for URLs, raw":   base64.RawURLEncoding.EncodeToString([]byte(value)),
		"a query":                url.QueryEscape(value),
		"a path":                 url.PathEscape(value),
		"a query in lower case":  "p%2fss%3cw%22%c3%b6%3e%2brd%5c1",
		"JSON of Go":             string(escaped[1 : len(escaped)-1]),
		"JSON":                   `p/ss<w\"ö>+rd\\1`,
		"JSON of Python":         `p/ss<w\"\u00f6>+rd\\1`,
		"JSON of PHP":            `p\/ss<w\"\u00f6>+rd\\1`,
		"JSON in JSON":           `p/ss<w\\\"ö>+rd\\\\1`,
	} {
		got := string(m.Redact([]byte("before " + form + " after")))
		if want := "before [secret db/password] after"; got != want {
			t.Errorf("%s: %s became %s", name, form, got)
		}
	}
}

// What the encoders of Python 3.11 and Node 22 made of the value.
func TestRedactFindsTheURLEscapesOfEachEncoder(t *testing.T) {
	t.Parallel()
	const value = "ab c/+~*&=:@;,$?#(d)!'ö%"
	m := redactor(map[string]string{"db/password": value})
	for name, form := range map[string]string{
		"Python's quote":                  "ab%20c/%2B~%2A%26%3D%3A%40%3B%2C%24%3F%23%28d%29%21%27%C3%B6%25",
		"Python's quote_plus":             "ab+c%2F%2B~%2A%26%3D%3A%40%3B%2C%24%3F%23%28d%29%21%27%C3%B6%25",
		"Python's quote of all":           "ab%20c%2F%2B~%2A%26%3D%3A%40%3B%2C%24%3F%23%28d%29%21%27%C3%B6%25",
		"JavaScript's encodeURI":          "ab%20c/+~*&=:@;,$?#(d)!'%C3%B6%25",
		"JavaScript's encodeURIComponent": "ab%20c%2F%2B~*%26%3D%3A%40%3B%2C%24%3F%23(d)!'%C3%B6%25",
		"URLSearchParams":                 "ab+c%2F%2B%7E*%26%3D%3A%40%3B%2C%24%3F%23%28d%29%21%27%C3%B6%25",
		"Go's QueryEscape":                url.QueryEscape(value),
		"Go's PathEscape":                 url.PathEscape(value),
		"Go's URL":                        (&url.URL{Path: value}).EscapedPath(),
	} {
		if got := redacted(m, "/x/"+form+"?y"); got != "/x/[secret db/password]?y" {
			t.Errorf("%s: %s became %s", name, form, got)
		}
	}
}

func TestRedactFindsAValueInsideLongerBase64AtEachAlignment(t *testing.T) {
	t.Parallel()
	m := redactor(map[string]string{"gh/token": "ghp_Zk81mQ0vTy"})
	for _, user := range []string{"", "u", "us", "use", "user"} {
		for _, tail := range []string{"", "x", "xy", "xyz"} {
			text := base64.StdEncoding.EncodeToString([]byte(user + "ghp_Zk81mQ0vTy" + tail))
			got := string(m.Redact([]byte("Basic " + text)))
			if !strings.Contains(got, "[secret gh/token]") || len(got)-len("Basic [secret gh/token]") > 14 {
				t.Errorf("user %q, tail %q: %s", user, tail, got)
			}
		}
	}
}

func TestRedactReturnsTheTextItselfWhenThereIsNothingToRedact(t *testing.T) {
	t.Parallel()
	text := []byte(`{"a":"ghp_Zk81mQ0vT"}`)
	for name, m := range map[string]*secret.Redactor{"empty": {}, "learned": redactor(map[string]string{"gh/token": "ghp_Zk81mQ0vTy"})} {
		if got := m.Redact(text); &got[0] != &text[0] || len(got) != len(text) {
			t.Errorf("%s: a copy came back: %s", name, got)
		}
	}
}

func TestRedactPrefersTheLongestAndLeavesNoRestOfOverlaps(t *testing.T) {
	t.Parallel()
	m := redactor(map[string]string{"a/short": "abcdef", "a/long": "abcdefghij", "a/next": "hijklm"})
	for text, want := range map[string]string{
		"-abcdef-":        "-[secret a/short]-",
		"-abcdefghij-":    "-[secret a/long]-",
		"-abcdefghijklm-": "-[secret a/long]-",
		"abcdefabcdef":    "[secret a/short][secret a/short]",
		"abcde":           "abcde",
	} {
		if got := redacted(m, text); got != want {
			t.Errorf("%s: got %s, want %s", text, got, want)
		}
	}
}

func TestRedactIgnoresValuesUnderSixBytes(t *testing.T) {
	t.Parallel()
	m := redactor(map[string]string{"a/b": "12345"})
	if got := redacted(m, "12345"); got != "12345" {
		t.Errorf("got %s", got)
	}
}

func TestRedactKeepsAJSONDocumentValid(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ value, doc, want string }{
		"in a string":             {"hunter22", `{"a":"x hunter22 y"}`, `{"a":"x [secret s/v] y"}`},
		"as a key":                {"hunter22", `{"hunter22":1}`, `{"[secret s/v]":1}`},
		"a number":                {"123456", `{"a": 99123456.5, "b":1}`, `{"a": "[secret s/v]", "b":1}`},
		"after a backslash":       {"nhunter22", `["\nhunter22"]`, `["[secret s/v]"]`},
		"ends in a backslash":     {`hunter\`, `["hunter\\", "hunter\"x"]`, `["[secret s/v]", "[secret s/v]x"]`},
		"within a unicode escape": {"00e9hunter", `["a\u00e9hunter b"]`, `["a[secret s/v] b"]`},
		"across values":           {`ab","cd`, `[["ab","cd"], 1]`, `["[secret s/v]", 1]`},
		"begins with a quote":     {`"hunter`, `{"a":["hunter2"]}`, `{"a":["[secret s/v]2"]}`},
		"a document":              {`{"client":"x"}`, `{"a":{"client":"x"},"b":"{\"client\":\"x\"}"}`, `{"a":"[secret s/v]","b":"[secret s/v]"}`},
		"a part and the whole":    {`2","b":"`, `{"a":"1 2","b":"2","b":"3"}`, `"[secret s/v]"`},
		"with white space around": {"\n[1,2]\n", "\n[1,2]\n", `"[secret s/v]"`},
	} {
		got := redacted(redactor(map[string]string{"s/v": tc.value}), tc.doc)
		if !json.Valid([]byte(got)) {
			t.Errorf("%s: not valid: %s", name, got)
		}
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestWriterRedactsValuesThatArriveInPieces(t *testing.T) {
	t.Parallel()
	m := redactor(map[string]string{"a/short": "abcdef", "a/long": "abcdefghij", "a/run": "zzzzzz"})
	for _, text := range []string{"say abcdef, abcdefghij or abcdefghi", "abcde", strings.Repeat("z", 40) + "y", ""} {
		want := redacted(m, text)
		for size := 1; size <= len(text)+1; size++ {
			if got := stream(t, m, text, size); got != want {
				t.Errorf("%s in pieces of %d: got %s, want %s", text, size, got, want)
			}
		}
	}
}

func TestWriterHoldsBackOnlyWhatMayBecomeAValue(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	w := redactor(map[string]string{"a/b": "abcdefghij"}).Writer(&out)
	for _, step := range []struct{ write, want string }{
		{"line\n", "line\n"}, {"abc", "line\n"}, {"x", "line\nabcx"}, {"abcdefghij", "line\nabcx[secret a/b]"},
	} {
		if _, err := w.Write([]byte(step.write)); err != nil {
			t.Fatal(err)
		}
		if out.String() != step.want {
			t.Errorf("after %q: got %q, want %q", step.write, &out, step.want)
		}
	}
}

func TestRedactorLearnsWhileOthersRedact(t *testing.T) {
	t.Parallel()
	var m secret.Redactor
	var wg sync.WaitGroup
	for _, name := range []string{"one", "two", "three"} {
		wg.Go(func() {
			m.Learn(map[secret.Ref]string{{Scope: "s", Name: name}: "value-" + name})
			if got, want := redacted(&m, "value-"+name), "[secret s/"+name+"]"; got != want {
				t.Errorf("got %s, want %s", got, want)
			}
		})
	}
	wg.Wait()
}

func stream(t *testing.T, m *secret.Redactor, text string, size int) string {
	t.Helper()
	var out bytes.Buffer
	w := m.Writer(&out)
	for rest := text; rest != ""; {
		n := min(size, len(rest))
		if _, err := w.Write([]byte(rest[:n])); err != nil {
			t.Fatal(err)
		}
		rest = rest[n:]
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func FuzzRedact(f *testing.F) {
	f.Add("hunter22", "123456", `{"a":["x hunter22",123456,"\u00e9"]}`, 3)
	f.Add("n\"\\hun", "aaaaaa", `["\nhunaaaaaaaaaaa\\"]`, 1)
	f.Add(`":["a`, `a"]}`, `{"x":["a"]}`, 2)
	f.Fuzz(func(t *testing.T, one, two, text string, size int) {
		if len(one)+len(two)+len(text) > 1<<12 {
			t.Skip()
		}
		m := redactor(map[string]string{"s/1": one, "s/2": two})
		got := redacted(m, text)
		if json.Valid([]byte(text)) != json.Valid([]byte(got)) && json.Valid([]byte(text)) {
			t.Errorf("%q became %q, which is not JSON", text, got)
		}
		marks := strings.NewReplacer("[secret s/1]", "\x00", "[secret s/2]", "\x00")
		for _, value := range []string{one, two} {
			if len(value) >= secret.MinRedacted && !strings.ContainsAny(value, "[]\x00\"secrt /12") && strings.Contains(marks.Replace(got), value) {
				t.Errorf("%q is left of %q in %q", value, text, got)
			}
		}
		if !json.Valid([]byte(text)) {
			if s := stream(t, m, text, 1+max(size, -size)%16); s != got {
				t.Errorf("as a stream %q became %q, as a whole %q", text, s, got)
			}
		}
	})
}

func BenchmarkRedact(b *testing.B) {
	line := `{"time":"2026-11-01T10:00:00Z","level":"INFO","msg":"tool called","tool":"github:create_issue","bytes":51200,"path":"/srv/data/report.csv"}` + "\n"
	for name, count := range map[string]int{"10 secrets": 10, "100 secrets": 100, "1000 secrets": 1000} {
		values := map[string]string{}
		for i := range count {
			sum := sha256.Sum256([]byte{byte(i), byte(i >> 8)})
			values[fmt.Sprint("s/", i)] = base64.RawURLEncoding.EncodeToString(sum[:])
		}
		m := redactor(values)
		text := []byte(strings.Repeat(line, 1000))
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				m.Redact(text)
			}
		})
		b.Run(name+", in base64", func(b *testing.B) {
			noise := make([]byte, len(text)*3/4)
			rand.NewChaCha8([32]byte{}).Read(noise)
			text := []byte(base64.StdEncoding.EncodeToString(noise))
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				m.Redact(text)
			}
		})
		b.Run(name+" as a stream", func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				w := m.Writer(io.Discard)
				for rest := text; len(rest) > 0; {
					n := min(4096, len(rest))
					if _, err := w.Write(rest[:n]); err != nil {
						b.Fatal(err)
					}
					rest = rest[n:]
				}
			}
		})
		b.Run(name+", in JSON", func(b *testing.B) {
			text := []byte(inJSON(string(text)))
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				m.Redact(text)
			}
		})
		b.Run(name+", one in each line", func(b *testing.B) {
			text := []byte(strings.Repeat(line+values["s/1"]+"\n", 1000))
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				m.Redact(text)
			}
		})
	}
}
