package schema

import (
	"encoding/json"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/toolroom/toolroom/internal/jsonx"
)

// FuzzTheMatcherAgreesWithTheJudge makes schemas of the keywords that a matcher knows, with
// a few that it does not, and documents of the same few values. Random bytes hardly ever
// combine two keywords.
func FuzzTheMatcherAgreesWithTheJudge(f *testing.F) {
	for seed := range uint64(2500) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		m := maker{rand.New(rand.NewPCG(seed, 0))}
		text := m.root()
		s, err := Compile(text, Limits{})
		if err != nil || s.fast == nil {
			return
		}
		for range 50 {
			document := []byte(m.document(3))
			if !s.Accepts(document) {
				continue
			}
			tree, err := jsonx.Decode(document, jsonx.Limits{})
			if err == nil {
				err = s.Validate(tree)
			}
			if err != nil {
				t.Fatalf("the matcher of %s accepts %s, but %v", text, document, err)
			}
		}
	})
}

// A maker makes random schemas and documents.
type maker struct{ *rand.Rand }

var (
	someNumbers = []string{
		"0", "-0", "0.0", "1", "1.0", "10e-1", "2", "3", "-1", "1.5", "0.1", "0.10", "0.30000000000000004", "100", "1E2", "1e308", "1e400", "1e-400",
		"9007199254740992", "9007199254740993", "9007199254740992.5", "9223372036854775807", "9223372036854775808", "-9223372036854775808", "18446744073709551616",
	}
	someTexts   = []string{``, `a`, `ab`, `abc`, `ä`, `\u00e4`, `\ud83d\ude00`, `😀`, `\n`, `\u0000`, `2020-01-01`, `2020-01-01T00:00:00Z`, `a@b.c`, `1`, `/`, `ſ`, `K`}
	someNames   = []string{"a", "b", "c", "ab", "", "ä", "$ref", "type", "a\x00"}
	someTypes   = []string{"null", "boolean", "string", "number", "number", "integer", "object", "object", "array", "array"}
	someFormats = []string{"date", "date-time", "email", "uri", "regex", "uuid", "ipv4", "unknown", "hostname", "time"}
	somePattern = []string{"^a", "b$", "^[a-z]+$", ".", "^.$", `\d`, "(?=a)a", "^$", "(?i)k", "[^a]", `\w+`, "^a{1,3}$"}
	someFactors = []string{"1", "2", "3", "0.1", "1.0", "0.5", "9007199254740993", "1e2"}
	someDrafts  = []string{"http://json-schema.org/draft-04/schema#", "http://json-schema.org/draft-07/schema#", "https://json-schema.org/draft/2019-09/schema"}
)

func one[T any](m maker, of []T) T { return of[m.IntN(len(of))] }

// oneIn reports true once in n times.
func (m maker) oneIn(n int) bool { return m.IntN(n) == 0 }

func (m maker) document(depth int) string {
	var parts []string
	switch kind := m.IntN(9); {
	case kind < 2:
		return one(m, someNumbers)
	case kind < 4:
		return `"` + one(m, someTexts) + `"`
	case kind == 4:
		return one(m, []string{"true", "false", "null"})
	case depth == 0:
		return one(m, []string{"[]", "{}"})
	case kind < 7:
		for range m.IntN(4) {
			parts = append(parts, m.document(depth-1))
		}
		return "[" + strings.Join(parts, ",") + "]"
	default:
		for range m.IntN(4) { // sometimes with a name twice
			name, _ := json.Marshal(one(m, someNames))
			parts = append(parts, string(name)+":"+m.document(depth-1))
		}
		return "{" + strings.Join(parts, ",") + "}"
	}
}

func (m maker) root() []byte {
	root := m.object(3)
	root["$defs"] = map[string]any{"x": m.schema(2), "y": m.schema(1)}
	if m.oneIn(4) {
		root["$schema"] = one(m, someDrafts)
	}
	text, err := json.Marshal(root)
	if err != nil {
		panic(err) // all numbers are valid
	}
	return text
}

func (m maker) schema(depth int) any {
	if m.oneIn(12) {
		return !m.oneIn(4)
	}
	return m.object(depth)
}

func (m maker) object(depth int) map[string]any {
	s := map[string]any{}
	if depth <= 0 {
		s["type"] = one(m, someTypes)
		return s
	}
	list := func() any {
		all := []any{}
		for range 1 + m.IntN(3) {
			all = append(all, m.schema(depth-1))
		}
		return all
	}
	raw := func(of []string) func() any { return func() any { return json.RawMessage(one(m, of)) } }
	small := func() any { return m.IntN(4) }
	value := func() any { return json.RawMessage(m.document(1)) }
	below := func() any { return m.schema(depth - 1) }
	for _, keyword := range []struct {
		name  string
		oneIn int
		value func() any
	}{
		{"anyOf", 16, list},
		{"oneOf", 16, list},
		{"allOf", 24, list},
		{"$ref", 16, func() any { return one(m, []string{"#/$defs/x", "#/$defs/y", "#"}) }},
		{"type", 2, func() any { return one(m, someTypes) }},
		{"minimum", 8, raw(someNumbers)},
		{"maximum", 8, raw(someNumbers)},
		{"exclusiveMinimum", 8, raw(someNumbers)},
		{"exclusiveMaximum", 8, raw(someNumbers)},
		{"multipleOf", 8, raw(someFactors)},
		{"minLength", 8, small},
		{"maxLength", 8, small},
		{"pattern", 10, func() any { return one(m, somePattern) }},
		{"format", 12, func() any { return one(m, someFormats) }},
		{"enum", 8, func() any { return []any{value(), value(), value()} }},
		{"const", 12, value},
		{"properties", 2, func() any {
			return map[string]any{one(m, someNames): m.schema(depth - 1), one(m, someNames): m.schema(depth - 1)}
		}},
		{"required", 4, func() any { return []string{one(m, someNames)} }},
		{"additionalProperties", 3, below},
		{"items", 3, below},
		{"minItems", 8, small},
		{"maxItems", 8, small},
		{"uniqueItems", 40, func() any { return true }},
		{"not", 40, below},
		{"contains", 40, below},
		{"minProperties", 40, small},
		{"patternProperties", 40, func() any { return map[string]any{"^a": m.schema(depth - 1)} }},
	} {
		if m.oneIn(keyword.oneIn) {
			s[keyword.name] = keyword.value()
		}
	}
	if m.oneIn(2) { // a matcher takes these alone only
		for _, combined := range []string{"anyOf", "oneOf", "allOf", "$ref"} {
			if value, ok := s[combined]; ok {
				return map[string]any{combined: value}
			}
		}
	}
	return s
}
