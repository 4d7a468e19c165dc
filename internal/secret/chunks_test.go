package secret_test

import (
	"encoding/json"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/toolroom/toolroom/internal/secret"
)

func inPieces(m *secret.Redactor, texts ...string) []json.RawMessage {
	p := m.Chunks()
	var out []json.RawMessage
	for _, text := range texts {
		doc, err := json.Marshal(text)
		if err != nil {
			panic(err)
		}
		out = append(out, p.Add(doc)...)
	}
	return append(out, p.Flush()...)
}

func TestChunksSplitAnywhereSayTheSame(t *testing.T) {
	t.Parallel()
	m := redactor(map[string]string{"a/short": "abcdef", "a/long": "abcdefghij", "a/run": "zzzzzz"})
	rapid.Check(t, func(t *rapid.T) {
		parts := rapid.SliceOfN(rapid.SampledFrom([]string{
			"abcdef", "ghij", "abc", "zzz", "YWJjZGVm", "616263646566", " ", "x", "def", "é", "\"", "\n",
		}), 0, 20).Draw(t, "parts")
		text := strings.Join(parts, "")
		text = "- " + text + " " // no JSON
		want := redacted(m, text)
		var cut []string
		for rest := text; rest != ""; {
			n := rapid.IntRange(1, len(rest)).Draw(t, "cut")
			for n < len(rest) && rest[n]&0xc0 == 0x80 {
				n++
			}
			cut, rest = append(cut, rest[:n]), rest[n:]
		}
		out := inPieces(m, cut...)
		var all strings.Builder
		for _, doc := range out {
			var text string
			if err := json.Unmarshal(doc, &text); err != nil {
				t.Fatal(err)
			}
			all.WriteString(text)
		}
		if all.String() != want || len(out) != len(cut) {
			t.Fatalf("%q became %q in %d, want %q in %d", cut, all.String(), len(out), want, len(cut))
		}
	})
}

func TestChunksOfObjectsAreRedactedFieldByField(t *testing.T) {
	t.Parallel()
	p := redactor(map[string]string{"a/b": "abcdefghij"}).Chunks()
	var out []string
	for _, doc := range []string{`{"n": 1, "text": "say abcd"}`, `{"n": 2, "text": "efghij ok"}`, `{"n":  3}`} {
		for _, ready := range p.Add(json.RawMessage(doc)) {
			out = append(out, string(ready))
		}
	}
	want := `{"n": 1, "text": "say [secret a/b]"} {"n": 2, "text": " ok"} {"n":  3}`
	if got := strings.Join(out, " "); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestChunksAreHeldOnlyWhileAValueMayBegin(t *testing.T) {
	t.Parallel()
	p := redactor(map[string]string{"a/b": "abcdefghij"}).Chunks()
	for _, step := range []struct {
		add  string
		want int
	}{{`"line"`, 1}, {`"abc"`, 0}, {`"d"`, 0}, {`"x"`, 3}, {`{"broken":`, 1}, {`7`, 1}} {
		if got := p.Add(json.RawMessage(step.add)); len(got) != step.want {
			t.Errorf("%s: %d pieces came, want %d", step.add, len(got), step.want)
		}
	}
	if rest := p.Flush(); len(rest) != 0 {
		t.Errorf("%q was left", rest)
	}
}

// A tool prints a letter with which a value begins, and then a great many empty lines.
func TestChunksWithoutTextAreNotHeldWithoutEnd(t *testing.T) {
	t.Parallel()
	p := redactor(map[string]string{"a/b": "abcdefghij"}).Chunks()
	const all = 30_000
	docs, held := 0, 0
	for i := range all {
		doc := `""`
		if i == 0 {
			doc = `"a"`
		}
		docs += len(p.Add(json.RawMessage(doc)))
		held = max(held, i+1-docs)
	}
	if docs += len(p.Flush()); docs != all || held > 1000 {
		t.Errorf("%d of %d documents were returned, and up to %d held", docs, all, held)
	}
	if got := p.Add(json.RawMessage(`"abcdefghij."`)); len(got) != 1 || strings.Contains(string(got[0]), "defg") {
		t.Errorf("afterwards: %s", got)
	}
}

func TestChunksWithoutAValueAreTheSameBytes(t *testing.T) {
	t.Parallel()
	p := redactor(map[string]string{"a/b": "abcdefghij"}).Chunks()
	const doc = `{ "a" : "\u00e9\/abcdx",  "b":[1.0,"Z"] }`
	if got := p.Add(json.RawMessage(doc)); len(got) != 1 || string(got[0]) != doc {
		t.Errorf("%s became %s", doc, got)
	}
}

func TestTheLinesOfAPEMKeyAreRedactedOneByOne(t *testing.T) {
	t.Parallel()
	m := redactor(map[string]string{"tls/key": "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQ\nSUJLoFQICRbA1234567890ab\n-----END PRIVATE KEY-----\n"})
	for text, want := range map[string]string{
		"MIIEvQIBADANBgkqhkiG9w0BAQ":  "[secret tls/key]",
		"-----BEGIN PRIVATE KEY-----": "-----BEGIN PRIVATE KEY-----",
	} {
		if got := redacted(m, text); got != want {
			t.Errorf("%s became %s", text, got)
		}
	}
}

func FuzzChunks(f *testing.F) {
	f.Add("hunter22", `"hun"`, `"ter22"`)
	f.Add("hunter22", `{"hun":"hun"}`, `{"ter22":"ter22"}`)
	f.Fuzz(func(t *testing.T, value, one, two string) {
		if len(value)+len(one)+len(two) > 1<<12 {
			t.Skip()
		}
		p := redactor(map[string]string{"s/v": value}).Chunks()
		out := append(p.Add(json.RawMessage(one)), p.Add(json.RawMessage(two))...)
		out = append(out, p.Flush()...)
		if len(out) != 2 {
			t.Fatalf("two pieces became %d", len(out))
		}
		for i, in := range []string{one, two} {
			if json.Valid([]byte(in)) && !json.Valid(out[i]) {
				t.Errorf("%q became %q, which is not JSON", in, out[i])
			}
		}
	})
}
