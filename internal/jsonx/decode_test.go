package jsonx

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestDecodeKeepsEveryValueExactly(t *testing.T) {
	t.Parallel()
	got, err := Decode([]byte(` {"n": [9007199254740993, -0, 1.50, 1e999], "s": "a\u00e9\n\"", "b": [true, false, null], "o": {}, "a": []} `), Limits{})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"n": []any{json.Number("9007199254740993"), json.Number("-0"), json.Number("1.50"), json.Number("1e999")},
		"s": "aé\n\"",
		"b": []any{true, false, nil},
		"o": map[string]any{},
		"a": []any{},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("tree (-want +got):\n%s", diff)
	}
}

func TestTheTreeSharesNoMemoryWithTheText(t *testing.T) {
	t.Parallel()
	data := []byte(`{"key":["text",12]}`)
	got, err := Decode(data, Limits{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range data {
		data[i] = 'x'
	}
	want := map[string]any{"key": []any{"text", json.Number("12")}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("tree (-want +got):\n%s", diff)
	}
}

func TestARefusalNamesPlaceReasonAndNextStep(t *testing.T) {
	t.Parallel()
	deep := strings.Repeat(`[`, 65) + strings.Repeat(`]`, 65)
	for name, test := range map[string]struct {
		data   string
		limits Limits
		want   string
	}{
		"duplicate key":         {data: `{"a":1, "a":2}`, want: `duplicate key "a" at line 1, column 9 (/a): keep one of them`},
		"duplicate key below":   {data: "{\"b\":[0,{\n \"a\":1,\n  \"\\u0061\":2}]}", want: `duplicate key "a" at line 3, column 3 (/b/1/a): keep one of them`},
		"columns count runes":   {data: `{"é":"日本", "é":0}`, want: `duplicate key "é" at line 1, column 12 (/é): keep one of them`},
		"invalid UTF-8":         {data: "[\"a\xff\"]", want: `invalid UTF-8 at line 1, column 4 (/0): encode the text as UTF-8`},
		"truncated":             {data: `{"a":["b"`, want: `the document ends too early at line 1, column 10 (/a): send it whole, with every string, array and object closed`},
		"empty":                 {data: "", want: `empty document at line 1, column 1: send one valid JSON document`},
		"blank":                 {data: "\n ", want: `empty document at line 2, column 2: send one valid JSON document`},
		"second document":       {data: "{}\n{}", want: `text after the end of the document at line 2, column 1: send exactly one document`},
		"trailing garbage":      {data: `{}]`, want: `text after the end of the document at line 1, column 3: send exactly one document`},
		"trailing comma":        {data: "[1,\n]", want: `comma before a closing bracket at line 1, column 3: remove the comma`},
		"not JSON":              {data: `{'a':1}`, want: `invalid character '\'' at start of value at line 1, column 2: send one valid JSON document`},
		"too deep by default":   {data: deep, want: `more than 64 levels of nesting at line 1, column 65 (` + strings.Repeat("/0", 40) + `…): send flatter data`},
		"too deep by choice":    {data: `{"a":[[1]]}`, limits: Limits{Depth: 2}, want: `more than 2 levels of nesting at line 1, column 7 (/a/0): send flatter data`},
		"too large":             {data: `"123456789"`, limits: Limits{Bytes: 10}, want: `document of 11 bytes, the limit is 10 at line 1, column 11: send less, or send a reference to the data`},
		"a lone surrogate":      {data: `"\ud800"`, want: "invalid surrogate pair `\\ud800\"` in string at line 1, column 2: send one valid JSON document"},
		"deeper than any limit": {data: strings.Repeat(`[`, 10_001), limits: Limits{Depth: 1 << 30}, want: `more than 9999 levels`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := Decode([]byte(test.data), test.limits)
			var syntax *SyntaxError
			if !errors.As(err, &syntax) {
				t.Fatalf("got %T %v, want a *SyntaxError", err, err)
			}
			if got := err.Error(); got != test.want && !(name == "deeper than any limit" && strings.HasPrefix(got, test.want)) {
				t.Errorf("\n got %s\nwant %s", got, test.want)
			}
			if checkErr := Check([]byte(test.data), test.limits); checkErr == nil || checkErr.Error() != err.Error() {
				t.Errorf("Check says %v, Decode says %v", checkErr, err)
			}
		})
	}
}

func TestDocumentsAtTheLimitsAreAccepted(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		data   string
		limits Limits
	}{
		"64 levels":          {data: strings.Repeat(`[`, 64) + strings.Repeat(`]`, 64)},
		"as many bytes":      {data: `"12345678"`, limits: Limits{Bytes: 10}},
		"a scalar, no depth": {data: `1`, limits: Limits{Depth: 1}},
		"many siblings":      {data: `[` + strings.Repeat(`[],`, 1000) + `{}]`, limits: Limits{Depth: 2}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if err := Check([]byte(test.data), test.limits); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestAReaderWalksADocumentWithoutChecksInBetween(t *testing.T) {
	t.Parallel()
	r := NewReader([]byte(`{"name":"a\tb","size":12,"rest":[{"deep":[1,2]},null]}`), Limits{})
	var got []string
	for r.Enter(); r.More(); {
		got = append(got, string(r.Text()))
		switch r.Peek() {
		case String:
			got = append(got, string(r.Text()))
		case Number:
			got = append(got, string(r.Number()))
		default:
			r.Skip()
		}
	}
	r.Leave()
	if err := r.Finish(); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"name", "a\tb", "size", "12", "rest"}, got); diff != "" {
		t.Errorf("read (-want +got):\n%s", diff)
	}
}

func TestAReaderStopsAtTheFirstErrorAndKeepsIt(t *testing.T) {
	t.Parallel()
	r := NewReader([]byte(`{"a":1,"a":2,"a":3}`), Limits{})
	rounds := 0
	for r.Enter(); r.More(); rounds++ {
		r.Text()
		r.Skip()
	}
	r.Leave()
	r.Skip()
	if kind := r.Peek(); kind != Invalid {
		t.Errorf("Peek after the error says %c", kind)
	}
	if rounds > 2 {
		t.Errorf("%d rounds, want the walk to end at the second member", rounds)
	}
	if err := r.Finish(); err == nil || !strings.HasPrefix(err.Error(), `duplicate key "a" at line 1, column 8`) {
		t.Errorf("got %v, want the first error", err)
	}
}

func FuzzDecodeAndCheckAgree(f *testing.F) {
	for _, doc := range suiteDocuments(f) {
		if len(doc.Data) < 1000 {
			f.Add(doc.Data)
		}
	}
	limits := Limits{Bytes: 1 << 16, Depth: 16}
	f.Fuzz(func(t *testing.T, data []byte) {
		tree, err := Decode(data, limits)
		checkErr := Check(data, limits)
		if (err == nil) != (checkErr == nil) || err != nil && err.Error() != checkErr.Error() {
			t.Fatalf("Decode says %v, Check says %v", err, checkErr)
		}
		if err != nil {
			return
		}
		encoded, err := Marshal(tree)
		if err != nil {
			t.Fatal(err)
		}
		again, err := Decode(encoded, Limits{})
		if err != nil {
			t.Fatalf("%s: %v", encoded, err)
		}
		if diff := cmp.Diff(tree, again); diff != "" {
			t.Fatalf("encoded and decoded (-want +got):\n%s", diff)
		}
	})
}
