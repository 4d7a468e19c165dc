package jsonx

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestPartsComeOutByteForByte(t *testing.T) {
	t.Parallel()
	text := ` {"b": 12345678901234567890, "a": {"z":1.10 , "y" : [ ]}, "é\u0041": "\u00e9"} `
	for path, want := range map[string][]string{
		"$.*":       {"12345678901234567890", `{"z":1.10 , "y" : [ ]}`, `"\u00e9"`},
		"$.a":       {`{"z":1.10 , "y" : [ ]}`},
		"$..y":      {"[ ]"},
		"$['éA']":   {`"\u00e9"`},
		"$.missing": nil,
	} {
		if diff := cmp.Diff(want, selectAll(t, path, text)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", path, diff)
		}
	}
}

func TestFiltersCompareLargeIntegersExactly(t *testing.T) {
	t.Parallel()
	text := `[{"id":9007199254740993},{"id":9007199254740992},{"id":1e3},{"id":1e999}]`
	for path, want := range map[string][]string{
		"$[?@.id == 9007199254740993].id": {"9007199254740993"},
		"$[?@.id == 1000].id":             {"1e3"},
		"$[?@.id > 9007199254740992].id":  {"9007199254740993", "1e999"},
	} {
		if diff := cmp.Diff(want, selectAll(t, path, text)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", path, diff)
		}
	}
}

func TestSelectionEndsWhenYieldSaysSo(t *testing.T) {
	t.Parallel()
	seen := 0
	err := mustParse(t, "$..*").Select(t.Context(), []byte(`[[1,2],[3,4]]`), func([]byte) bool {
		seen++
		return seen < 2
	})
	if err != nil || seen != 2 {
		t.Errorf("%d parts seen, error %v; want 2 and none", seen, err)
	}
}

func TestAPathThatMultipliesWorkIsStopped(t *testing.T) {
	t.Parallel()
	wide := "[" + strings.Repeat("1,", 1<<16) + "1]"
	deep := strings.Repeat("[", 5000) + strings.Repeat("]", 5000)
	for name, tt := range map[string]struct{ path, text string }{
		"the same selector many times": {"$" + strings.Repeat("[*,*,*,*]", 60), strings.Repeat("[", 60) + wide + strings.Repeat("]", 60)},
		"descendants of descendants":   {"$" + strings.Repeat("..*", 100), deep},
		"a query per element":          {"$[?$[?$[?@ == 2]]]", wide},
		"many queries per element":     {"$[?" + strings.Repeat("@&&", 1000) + "@]", "[" + strings.Repeat("1,", 2000) + "1]"},
		"many selectors of no array":   {"$.*[" + strings.Repeat("0,", 1500) + "0]", "[" + strings.Repeat("1,", 2000) + "1]"},
		"many comparisons per element": {"$[?" + strings.Repeat("1==1&&", 600) + "1==2]", wide},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const work = 4 << 20
			read := 0
			err := mustParse(t, tt.path).selectWithin(t.Context(), work, []byte(tt.text), func(part []byte) bool {
				read += len(part)
				return true
			})
			if !errors.Is(err, ErrPathWork) || read > work {
				t.Errorf("error %v after %d bytes, want ErrPathWork", err, read)
			}
		})
	}
}

func TestSelectionEndsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	seen := 0
	err := mustParse(t, "$..*").Select(ctx, []byte(`[[1,2],[3,4]]`), func([]byte) bool {
		seen++
		cancel()
		return true
	})
	if !errors.Is(err, context.Canceled) || seen > 2 {
		t.Errorf("%d parts seen, error %v", seen, err)
	}
}

func TestTextThatIsNotJSONIsRefused(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", " ", "{", `{"a":1}{"a":2}`, "plain text", strings.Repeat("[", 1<<20)} {
		err := mustParse(t, "$..*").Select(t.Context(), []byte(text), func([]byte) bool { return true })
		if !errors.Is(err, ErrNotJSON) {
			t.Errorf("%.20q: %v, want ErrNotJSON", text, err)
		}
	}
}

func TestASyntaxErrorSaysWhere(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]string{
		"items":                                 `at byte 0: a path begins with $`,
		"$.items[0":                             `at byte 9: expected , or ]`,
		"$['a":                                  `at byte 2: the quote is not closed`,
		"$.a-b":                                 `at byte 3: expected . or [`,
		"$[?length(@.a) > 1]":                   `functions such as "length" are not supported`,
		"$[?@.* == 1]":                          `names and indexes only`,
		"$" + strings.Repeat(" ", MaxPathBytes): "longer than 4096 bytes",
		"$[?" + strings.Repeat("(", 100) + "@":  "nested deeper than 64",
	} {
		_, err := ParsePath(path)
		var syntax *PathError
		if !errors.As(err, &syntax) || !strings.Contains(err.Error(), want) {
			t.Errorf("ParsePath(%.30q) = %v, want %q", path, err, want)
		}
	}
}

func TestTextsThatAreNotUTF8AreNotEqual(t *testing.T) {
	t.Parallel()
	p, err := ParsePath("$[?@.a == @.b]")
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	text := "[{\"a\": \"\xe9\", \"b\": \"\xea\"}, {\"a\": \"\xe9\", \"b\": \"\xe9\"}]"
	if err := p.Select(t.Context(), []byte(text), func(v []byte) bool { found = append(found, string(v)); return true }); err != nil || len(found) != 1 {
		t.Errorf("%q, %v, want the second", found, err)
	}
}

func FuzzPathSelect(f *testing.F) {
	for _, unit := range []string{`$[?(`, `$[?!`, `$[?@`, `[0]`, `..`, `$[?length(`} { // nested deep
		f.Add("$"+strings.Repeat(unit, 20_000), strings.Repeat("[", 20_000))
	}
	for _, path := range []string{"$", "$..*", "$['a','b'][0:5:2]", "$[?@.a == 'b' && !(@.c < 1)]", `$["\ud83d\ude00"]`} {
		f.Add(path, `{"a":[{"a":"b","c":0.5}],"b":null}`)
	}
	f.Fuzz(func(t *testing.T, path, text string) {
		p, err := ParsePath(path)
		if err != nil {
			return
		}
		parts := 0
		err = p.Select(t.Context(), []byte(text), func(part []byte) bool {
			if !json.Valid(part) || len(bytes.TrimSpace(part)) != len(part) {
				t.Errorf("%q of %q selects %q", path, text, part)
			}
			parts++
			return parts < 1000
		})
		if valid := json.Valid([]byte(text)); valid == errors.Is(err, ErrNotJSON) {
			t.Errorf("%q: error %v, JSON %v", text, err, valid)
		}
	})
}

func mustParse(t *testing.T, path string) *Path {
	t.Helper()
	p, err := ParsePath(path)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func selectAll(t *testing.T, path, text string) []string {
	t.Helper()
	var parts []string
	err := mustParse(t, path).Select(t.Context(), []byte(text), func(part []byte) bool {
		parts = append(parts, string(part))
		return true
	})
	if err != nil {
		t.Fatal(err)
	}
	return parts
}
