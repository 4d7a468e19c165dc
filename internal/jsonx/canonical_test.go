package jsonx

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"
)

func TestCanonicalWritesEachValueInOneWay(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		same []string
		want string
	}{
		"members and space":       {[]string{`{"b":1,"a":[1, 2]}`, "{ \"a\" : [1,2],\n\"b\":1 }"}, `{"a":[1,2],"b":1}`},
		"escapes":                 {[]string{`"\u0061\/\u00e9\n\u000a<"`, `"a/é\n\n<"`}, `"a/é\n\n<"`},
		"control characters":      {[]string{`"\u001f\u0008"`, `"\u001F\b"`}, `"\u001f\b"`},
		"UTF-16 order of members": {[]string{`{"\ufb33":1,"😀":2}`}, "{\"😀\":2,\"\ufb33\":1}"},
		"one":                     {[]string{`1`, `1.0`, `1e0`, `10e-1`, `0.1E+1`, `1.000`}, `1`},
		"zero":                    {[]string{`0`, `-0`, `0.0`, `-0e9`, `0e999999999999999999999`}, `0`},
		"beyond 2^53":             {[]string{`9007199254740993`, `9007199254740993.0`, `900719925474099.3e1`}, `9007199254740993`},
		"many digits":             {[]string{`123456789012345678901234567890`, `123456789012345678901234567.890e3`}, `123456789012345678901234567890`},
		"negative":                {[]string{`-12`, `-1.2e1`}, `-12`},
		"20 zeros":                {[]string{`1e20`, `100000000000000000000`}, `100000000000000000000`},
		"21 zeros":                {[]string{`1e21`, `1000000000000000000000`, `0.1e22`}, `1e+21`},
		"large":                   {[]string{`1.50e300`, `15e299`}, `1.5e+300`},
		"fraction":                {[]string{`0.50`, `5e-1`, `500e-3`}, `0.5`},
		"long fraction":           {[]string{`3.14159265358979323846264338327950288`}, `3.14159265358979323846264338327950288`},
		"five zeros in front":     {[]string{`0.0000012`, `1.2e-6`}, `0.0000012`},
		"six zeros in front":      {[]string{`0.00000012`, `12e-8`}, `1.2e-7`},
		"the largest exponent":    {[]string{`1e1000000`, `0.1e1000001`, `10e999999`}, `1e+1000000`},
		"numbers inside strings":  {[]string{`{"1.0":"1.0, \"2.0"}`}, `{"1.0":"1.0, \"2.0"}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, data := range test.same {
				got, err := Canonical([]byte(data))
				if err != nil {
					t.Fatal(err)
				}
				if string(got) != test.want {
					t.Errorf("%s became %s, want %s", data, got, test.want)
				}
			}
		})
	}
}

func TestCanonicalTellsNeighboursApart(t *testing.T) {
	t.Parallel()
	seen := map[string]string{}
	for _, data := range []string{`1`, `"1"`, `10`, `0.1`, `-1`, `9007199254740992`, `9007199254740993`, `1e400`, `1e401`, `[1]`, `{"1":1}`, `null`, `0`, `""`} {
		got, err := Canonical([]byte(data))
		if err != nil {
			t.Fatal(err)
		}
		if other, ok := seen[string(got)]; ok {
			t.Errorf("%s and %s both become %s", data, other, got)
		}
		seen[string(got)] = data
	}
}

func TestCanonicalRefusesWhatHasNoForm(t *testing.T) {
	t.Parallel()
	for data, want := range map[string]string{
		`{"a":1,"a":1}`:           `duplicate key "a"`,
		`[10e1000000]`:            `number 10e1000000 with an exponent beyond a million`,
		`[1e1000001]`:             `number 1e1000001 with an exponent beyond a million`,
		`1e-99999999999999999999`: `with an exponent beyond a million`,
		strings.Repeat("[", 65):   `more than 64 levels of nesting`,
		"":                        `empty document`,
		`"` + "\xc3\x28" + `"`:    `invalid UTF-8`,
	} {
		if _, err := Canonical([]byte(data)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %s", data, err, want)
		}
	}
}

func TestCanonicalLeavesItsInputAlone(t *testing.T) {
	t.Parallel()
	data := []byte(`{"b":1.0,"a":2}`)
	if _, err := Canonical(data); err != nil {
		t.Fatal(err)
	}
	if string(data) != `{"b":1.0,"a":2}` {
		t.Errorf("the input became %s", data)
	}
}

func FuzzCanonicalIsStableAndBlindToOrder(f *testing.F) {
	for _, doc := range suiteDocuments(f) {
		if len(doc.Data) < 1000 {
			f.Add(doc.Data)
		}
	}
	f.Add([]byte(`{"b":[1.0e3,-0.00000001,{"é":9007199254740993}],"a":{"c":null}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		once, err := Canonical(data)
		if err != nil {
			return
		}
		if twice, err := Canonical(once); err != nil || string(twice) != string(once) {
			t.Fatalf("%s became %s, %v", once, twice, err)
		}
		tree, err := Decode(data, Limits{})
		if err != nil {
			t.Fatal(err)
		}
		turned := backwards(t, tree)
		if got, err := Canonical([]byte(turned)); err != nil || string(got) != string(once) {
			t.Fatalf("%s became %s, %v; %s became %s", turned, got, err, data, once)
		}
	})
}

// backwards encodes a tree with its members in the reverse of the usual order.
func backwards(t *testing.T, tree any) string {
	var parts []string
	switch tree := tree.(type) {
	case map[string]any:
		names := slices.Sorted(maps.Keys(tree))
		slices.Reverse(names)
		for _, name := range names {
			parts = append(parts, backwards(t, name)+" :\t"+backwards(t, tree[name]))
		}
		return "{\n" + strings.Join(parts, " ,") + "}"
	case []any:
		for _, item := range tree {
			parts = append(parts, backwards(t, item))
		}
		return "[" + strings.Join(parts, ", ") + " ]"
	default:
		encoded, err := json.Marshal(tree)
		if err != nil {
			t.Fatal(err)
		}
		return string(encoded)
	}
}
