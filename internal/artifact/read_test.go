package artifact

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/toolroom/toolroom"
)

func TestPagesOfTextAddUpToTheWhole(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Options{})
	text := strings.Repeat("aé€😀", 50)
	a := f.put(t, "ann", File, text)
	for limit := range int64(20) {
		var got strings.Builder
		for next := int64(0); ; {
			page := f.read(t, a, ReadOptions{Offset: next, Limit: limit + 1})
			if page.Offset != int64(got.Len()) {
				t.Fatalf("limit %d: page begins at %d, the one before ended at %d", limit+1, page.Offset, got.Len())
			}
			if most := max(limit+1, utf8.UTFMax); !utf8.ValidString(page.Text) || int64(len(page.Text)) > most || page.Text == "" {
				t.Fatalf("limit %d: page %q", limit+1, page.Text)
			}
			got.WriteString(page.Text)
			if next = page.Next; next == 0 {
				break
			}
		}
		if got.String() != text {
			t.Errorf("limit %d: pages give %q", limit+1, got.String())
		}
	}
}

func TestAPageBeginsAtTheCharacterThatItsOffsetFallsInto(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Options{})
	a := f.put(t, "ann", File, "a😀b")
	for offset, want := range []Page{
		{Text: "a😀b", Offset: 0},
		{Text: "😀b", Offset: 1},
		{Text: "😀b", Offset: 1},
		{Text: "😀b", Offset: 1},
		{Text: "😀b", Offset: 1},
		{Text: "b", Offset: 5},
		{Text: "", Offset: 6},
	} {
		want.Artifact = a
		if diff := cmp.Diff(&want, f.read(t, a, ReadOptions{Offset: int64(offset)})); diff != "" {
			t.Errorf("offset %d (-want +got):\n%s", offset, diff)
		}
	}
}

func TestBytesThatAreNoTextAreShownAsReplacements(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Options{})
	a := f.put(t, "ann", File, "ok\xff\xfe\x80\x80\x80\x80\x80\x80ok")
	page := f.read(t, a, ReadOptions{})
	if page.Text != "ok\uFFFDok" || page.Next != 0 {
		t.Errorf("page %q, next %d", page.Text, page.Next)
	}
	for offset := range a.Size {
		if page := f.read(t, a, ReadOptions{Offset: offset, Limit: 4}); page.Offset != offset {
			t.Errorf("page at %d begins at %d: bytes that are no character must not be passed over", offset, page.Offset)
		}
	}
}

func TestAPageHasItsDefaultAndLargestSize(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Options{})
	a := f.put(t, "ann", File, strings.Repeat("x", 2<<20))
	for limit, want := range map[int64]int{0: 51200, 1 << 40: 1 << 20} {
		if page := f.read(t, a, ReadOptions{Limit: limit}); len(page.Text) != want || page.Next != int64(want) {
			t.Errorf("limit %d: %d bytes, next %d; want %d", limit, len(page.Text), page.Next, want)
		}
	}
}

const poem = "one\ntwo\nthree\nfour\nfive\nsix\nseven\neight\nnine\nten"

func TestGrepGivesNumberedLinesWithTheirOffsets(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Options{})
	a := f.put(t, "ann", File, poem)
	tests := map[string]struct {
		opts    ReadOptions
		want    string
		matches int
	}{
		"lines alone":            {ReadOptions{Grep: "^t"}, "2:4:two\n3:8:three\n10:45:ten\n", 3},
		"context on both sides":  {ReadOptions{Grep: "^five", Context: 1}, "4-14-four\n5:19:five\n6-24-six\n", 1},
		"groups":                 {ReadOptions{Grep: "one|six", Context: 1}, "1:0:one\n2-4-two\n--\n5-19-five\n6:24:six\n7-28-seven\n", 2},
		"contexts that meet":     {ReadOptions{Grep: "one|four", Context: 1}, "1:0:one\n2-4-two\n3-8-three\n4:14:four\n5-19-five\n", 2},
		"contexts that overlap":  {ReadOptions{Grep: "one|three", Context: 2}, "1:0:one\n2-4-two\n3:8:three\n4-14-four\n5-19-five\n", 2},
		"from an offset":         {ReadOptions{Grep: "^t", Offset: 5}, "3:8:three\n10:45:ten\n", 2},
		"in the context before":  {ReadOptions{Grep: "^five", Context: 2, Offset: 14}, "4-14-four\n5:19:five\n6-24-six\n7-28-seven\n", 1},
		"in the context after":   {ReadOptions{Grep: "^five", Context: 2, Offset: 28}, "7-28-seven\n", 0},
		"nothing":                {ReadOptions{Grep: "eleven"}, "", 0},
		"an empty match":         {ReadOptions{Grep: "x*", Offset: 41}, "10:45:ten\n", 1},
		"ignoring case":          {ReadOptions{Grep: "(?i)SIX"}, "6:24:six\n", 1},
		"a page of at least one": {ReadOptions{Grep: "three", Limit: 1}, "3:8:three\n", 1},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			page := f.read(t, a, tt.opts)
			if diff := cmp.Diff(tt.want, page.Text); diff != "" {
				t.Errorf("text (-want +got):\n%s", diff)
			}
			if page.Matches != tt.matches || page.Next != 0 {
				t.Errorf("%d matches, next %d; want %d and 0", page.Matches, page.Next, tt.matches)
			}
		})
	}
}

func TestPagesOfGrepAddUpToTheWhole(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Options{})
	var text strings.Builder
	for n := range 100 {
		fmt.Fprintf(&text, "line %d %s\r\n", n, strings.Repeat("é", n%40))
		if n == 50 {
			text.WriteString(strings.Repeat("filler ", 10000) + "needle " + strings.Repeat("needle far away ", 100) + "\n")
		}
	}
	a := f.put(t, "ann", File, text.String())
	for _, context := range []int{0, 2} {
		opts := ReadOptions{Grep: "needle|[37]", Context: context, Limit: MaxPage}
		whole := f.read(t, a, opts)
		if whole.Next != 0 || whole.Matches < 10 {
			t.Fatalf("%d matches, next %d", whole.Matches, whole.Next)
		}
		for _, limit := range []int64{1, 50, 500, 5000} {
			opts.Offset, opts.Limit = 0, limit
			var got []string
			matches := 0
			for {
				page := f.read(t, a, opts)
				got = append(got, strings.Split(page.Text, "\n")...)
				matches += page.Matches
				if page.Next == 0 {
					break
				}
				if page.Next <= opts.Offset {
					t.Fatalf("limit %d: next is %d after %d", limit, page.Next, opts.Offset)
				}
				opts.Offset = page.Next
			}
			if diff := cmp.Diff(content(strings.Split(whole.Text, "\n")), content(got)); diff != "" {
				t.Errorf("context %d, limit %d (-whole +pages):\n%s", context, limit, diff)
			}
			if matches != whole.Matches {
				t.Errorf("context %d, limit %d: %d matches, want %d", context, limit, matches, whole.Matches)
			}
		}
	}
}

// content leaves out what only separates lines.
func content(lines []string) (kept []string) {
	for _, l := range lines {
		if l != "" && l != "--" {
			kept = append(kept, l)
		}
	}
	return kept
}

func TestASearchThatTakesTooLongEnds(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Options{})
	a := f.put(t, "ann", File, "a text")
	_, err := f.store.Read(t.Context(), "ann", a.Handle, ReadOptions{Grep: "text", search: -1})
	if toolroom.CodeOf(err) != toolroom.CodeResourceLimit || !strings.Contains(toolroom.AsError(err).Hint, "simpler") {
		t.Errorf("got %v", err)
	}
}

func TestGrepShowsEachMatchInALineThatIsTooLongToShow(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Options{})
	// One line, as JSON often is, with matches at the seams between pieces.
	line := []byte(strings.Repeat("é", 150_000))
	places := []int{0, 5000, pieceSize - overlap - 2, pieceSize - 4, pieceSize + 1000, len(line) - 6}
	for _, at := range places {
		copy(line[at:], "NEEDLE")
	}
	a := f.put(t, "ann", File, "first\n"+string(line)+"\nlast\n")
	page := f.read(t, a, ReadOptions{Grep: "NEEDLE"})
	lines := content(strings.Split(page.Text, "\n"))
	if len(lines) != len(places) {
		t.Fatalf("%d excerpts for %d matches:\n%.2000s", len(lines), len(places), page.Text)
	}
	for i, l := range lines {
		var number, offset int
		if _, err := fmt.Sscanf(l, "%d:%d:", &number, &offset); err != nil {
			t.Fatal(err)
		}
		_, shown, _ := strings.Cut(strings.TrimPrefix(l, fmt.Sprintf("%d:%d:", number, offset)), "NEEDLE")
		at := len(l) - len(shown) - len("NEEDLE") - len(fmt.Sprintf("%d:%d:", number, offset))
		at -= strings.Count(l[:len(l)-len(shown)], "…") * len("…")
		if got := offset + at - len("first\n"); number != 2 || got != places[i] {
			t.Errorf("excerpt %d: line %d, match at %d; want line 2, %d", i, number, got, places[i])
		}
		if len(l) > maxShownLine+64 {
			t.Errorf("excerpt %d has %d bytes", i, len(l))
		}
	}
}

func TestJSONPathGivesThePartsOnLines(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Options{})
	a := f.put(t, "ann", Result, `{"items":[{"id":12345678901234567890,"name":"é"},{"id":2,"name":"b"}]}`)
	for path, want := range map[string]string{
		"$.items[*].id":                "12345678901234567890\n2\n",
		"$.items[?@.name == 'é'].name": "\"é\"\n",
		"$.items[0]":                   `{"id":12345678901234567890,"name":"é"}` + "\n",
		"$.none":                       "",
	} {
		page := f.read(t, a, ReadOptions{JSONPath: path})
		if page.Text != want || page.Next != 0 || page.Matches != strings.Count(want, "\n") {
			t.Errorf("%s: %q, next %d, %d matches", path, page.Text, page.Next, page.Matches)
		}
	}
}

func TestPagesOfAJSONPathAddUpToTheWhole(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Options{})
	a := f.put(t, "ann", Result, `["aé€😀","","`+strings.Repeat("😀", 30)+`",1,[2]]`)
	want := f.read(t, a, ReadOptions{JSONPath: "$..*"}).Text
	for limit := range int64(40) {
		var got strings.Builder
		opts := ReadOptions{JSONPath: "$..*", Limit: limit + 1}
		for {
			page := f.read(t, a, opts)
			if page.Text == "" || len(page.Text) > int(max(limit+1, utf8.UTFMax))+1 {
				t.Fatalf("limit %d: page %q", limit+1, page.Text)
			}
			got.WriteString(page.Text)
			if page.Next == 0 {
				break
			}
			opts.Offset = page.Next
		}
		if got.String() != want {
			t.Errorf("limit %d: %q, want %q", limit+1, got.String(), want)
		}
	}
}

func TestReadSaysWhatIsWrongWithItsOptions(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Options{})
	a := f.put(t, "ann", File, poem)
	large := f.put(t, "ann", File, strings.Repeat(" ", maxJSON+1))
	for name, tt := range map[string]struct {
		handle string
		opts   ReadOptions
		code   toolroom.Code
		want   string
	}{
		"a negative offset":          {a.Handle, ReadOptions{Offset: -1}, toolroom.CodeInvalidArguments, "negative"},
		"an offset beyond the end":   {a.Handle, ReadOptions{Offset: 49}, toolroom.CodeInvalidArguments, "has 48 bytes"},
		"two ways at once":           {a.Handle, ReadOptions{Grep: "a", JSONPath: "$"}, toolroom.CodeInvalidArguments, "together"},
		"a broken expression":        {a.Handle, ReadOptions{Grep: "("}, toolroom.CodeInvalidArguments, "missing closing )"},
		"a long expression":          {a.Handle, ReadOptions{Grep: strings.Repeat("a", 1001)}, toolroom.CodeInvalidArguments, "longer than 1000"},
		"a hostile expression":       {a.Handle, ReadOptions{Grep: "((a{100}){100}){100}"}, toolroom.CodeInvalidArguments, "invalid repeat count"},
		"a broken path":              {a.Handle, ReadOptions{JSONPath: "items"}, toolroom.CodeInvalidArguments, "begins with $"},
		"a path into text":           {a.Handle, ReadOptions{JSONPath: "$"}, toolroom.CodeInvalidArguments, "is not JSON"},
		"a path into a large text":   {large.Handle, ReadOptions{JSONPath: "$"}, toolroom.CodeResourceLimit, "at most 16777216"},
		"a handle that is not there": {"art_aaaa", ReadOptions{}, toolroom.CodeNotFound, "no artifact"},
	} {
		_, err := f.store.Read(t.Context(), "ann", tt.handle, tt.opts)
		if toolroom.CodeOf(err) != tt.code || !strings.Contains(err.Error(), tt.want) || toolroom.AsError(err).Hints() == "" {
			t.Errorf("%s: %v, want %s, %q and a hint", name, err, tt.code, tt.want)
		}
	}
}

func (f *fixture) read(t *testing.T, a toolroom.Artifact, opts ReadOptions) *Page {
	t.Helper()
	page, err := f.store.Read(t.Context(), "ann", a.Handle, opts)
	if err != nil {
		t.Fatal(err)
	}
	return page
}

// secretRedactor replaces one secret.
type secretRedactor struct{}

const (
	hiddenSecret = "ghp_1234567890"
	secretMark   = "[secret github/token]"
)

func (secretRedactor) Redact(text []byte) []byte {
	return bytes.ReplaceAll(text, []byte(hiddenSecret), []byte(secretMark))
}

func (r secretRedactor) Reader(from io.Reader) io.Reader {
	text, err := io.ReadAll(from)
	if err != nil {
		return iotest.ErrReader(err)
	}
	return bytes.NewReader(r.Redact(text))
}

func TestReadsInPartsShowNoPartOfASecret(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Options{Redactor: secretRedactor{}})
	text := `{"a":"` + hiddenSecret + `","b":"` + strings.Repeat("x", 3000) + hiddenSecret + `"}`
	a := f.put(t, "ann", File, text)
	want := strings.ReplaceAll(text, hiddenSecret, secretMark)
	for _, limit := range []int64{5, 11, 12, 100, 5000} {
		var got strings.Builder
		for next := int64(0); ; {
			page := f.read(t, a, ReadOptions{Offset: next, Limit: limit})
			got.WriteString(page.Text)
			if next = page.Next; next == 0 {
				break
			}
		}
		if got.String() != want {
			t.Errorf("limit %d: the pages are %q", limit, got.String())
		}
	}
	for offset := range len(text) {
		if page := f.read(t, a, ReadOptions{Offset: int64(offset), Limit: 7}); strings.Contains(page.Text, "ghp") || strings.Contains(page.Text, "7890") {
			t.Fatalf("offset %d shows %q", offset, page.Text)
		}
	}
	// A search or a filter that matches a secret would tell it character by character.
	for _, o := range []ReadOptions{{Grep: "ghp_1"}, {Grep: "7890"}, {JSONPath: "$[?@ == '" + hiddenSecret + "']"}} {
		if page := f.read(t, a, o); page.Text != "" {
			t.Errorf("%+v shows %q", o, page.Text)
		}
	}
	if page := f.read(t, a, ReadOptions{JSONPath: "$.a"}); page.Text != `"`+secretMark+`"`+"\n" {
		t.Errorf("the part is %q", page.Text)
	}
	file, _, err := f.store.OpenRedacted(t.Context(), "ann", a.Handle)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if got, err := io.ReadAll(file); err != nil || string(got) != want {
		t.Errorf("%q, %v", got, err)
	}
}
