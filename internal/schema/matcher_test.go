package schema

import (
	"strings"
	"testing"
)

func TestTheMatcherSettlesWhatMostToolsUse(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		schema   string
		accepted []string
		refused  []string
	}{
		"a tool":                          {issueSchema, []string{issueCall, `{"title":"a","labels":[]}`, `{"labels":["\u0061"],"t\u0069tle":"é"}`}, []string{issueMistake, `{"title":"a"}`, `{"title":"","labels":[]}`}},
		"types":                           {`{"type": ["string", "null"]}`, []string{`"a"`, `null`}, []string{`1`, `true`, `[]`, `{}`}},
		"integers":                        {`{"type": "integer"}`, []string{`0`, `-5`, `9223372036854775807`}, []string{`1.5`, `"1"`}},
		"bounds":                          {`{"minimum": -1, "exclusiveMaximum": 2.5, "multipleOf": 2}`, []string{`0`, `2`}, []string{`-2`, `4`, `1`, `2.5`}},
		"large bounds":                    {`{"maximum": 9007199254740992}`, []string{`9007199254740992`, `0.5`}, []string{`9007199254740993`}},
		"fractions":                       {`{"minimum": 0, "maximum": 2}`, []string{`0.7`, `2`, `1.999`}, []string{`2.1`, `-0.1`, `2.00000000000000000001`}},
		"lengths":                         {`{"minLength": 2, "maxLength": 3}`, []string{`"日本"`, `"\ud83d\udc32b"`, `1`}, []string{`"a"`, `"日本語x"`}},
		"pattern":                         {`{"pattern": "^a+$"}`, []string{`"aa"`, `null`}, []string{`"b"`}},
		"format":                          {`{"format": "date"}`, []string{`"2026-02-28"`, `1`}, []string{`"2026-02-30"`}},
		"enum":                            {`{"enum": ["a", 1, null, true, {"b": 1}]}`, []string{`"a"`, `1`, `null`, `true`}, []string{`"b"`, `2`, `false`, `{}`}},
		"enum with bounds":                {`{"enum": [1, 20], "maximum": 10, "multipleOf": 1}`, []string{`1`}, []string{`20`, `2`}},
		"const":                           {`{"const": "a"}`, []string{`"a"`}, []string{`"b"`, `[]`}},
		"items":                           {`{"items": {"type": "boolean"}, "minItems": 1, "maxItems": 2}`, []string{`[true]`, `[true, false]`}, []string{`[]`, `[1]`, `[true, true, true]`}},
		"no others":                       {`{"properties": {"a": true}, "additionalProperties": false}`, []string{`{}`, `{"a": [{}]}`}, []string{`{"b": 1}`}},
		"others":                          {`{"properties": {"a": true}, "additionalProperties": {"type": "string"}, "required": ["b"]}`, []string{`{"b": "x"}`, `{"a": 1, "b": "x", "c": "y"}`}, []string{`{"a": 1}`, `{"b": 1}`}},
		"references":                      {`{"$defs": {"s": {"type": "string"}}, "properties": {"a": {"$ref": "#/$defs/s"}, "b": {"allOf": [{"$ref": "#/$defs/s"}], "description": "x"}}}`, []string{`{"a": "x", "b": "y"}`}, []string{`{"a": 1}`, `{"b": 1}`}},
		"optional, as pydantic writes it": {`{"properties": {"a": {"anyOf": [{"type": "integer"}, {"type": "null"}], "default": null}}}`, []string{`{"a": 1}`, `{"a": null}`, `{}`}, []string{`{"a": "x"}`}},
		"alternatives by kind":            {`{"oneOf": [{"type": "string", "maxLength": 1}, {"anyOf": [{"type": "array", "items": {"type": "null"}}, {"type": "boolean"}]}]}`, []string{`"a"`, `[null]`, `true`, `false`}, []string{`"ab"`, `[1]`, `1`}},
		"everything":                      {`true`, []string{`{"a": [1, "x", null]}`}, nil},
		"nothing":                         {`{"items": false}`, []string{`[]`}, []string{`[1]`}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := mustCompile(t, test.schema)
			for _, document := range test.accepted {
				if !s.Accepts([]byte(document)) {
					t.Errorf("%s is not accepted", document)
				}
				if err := s.Validate(decode(t, document)); err != nil {
					t.Errorf("%s: %v", document, err)
				}
			}
			for _, document := range test.refused {
				if s.Accepts([]byte(document)) {
					t.Errorf("%s is accepted", document)
				}
			}
		})
	}
}

func TestTheMatcherLeavesTheRestToTheJudge(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ schema, document string }{
		"a recursive schema":       {`{"properties": {"next": {"$ref": "#"}}}`, `{"next": {}}`},
		"a reference with company": {`{"$ref": "#/$defs/a", "minLength": 1, "$defs": {"a": {"type": "string"}}}`, `"a"`},
		"alternatives of one kind": {`{"anyOf": [{"type": "integer"}, {"type": "number"}]}`, `1`},
		"unique items":             {`{"uniqueItems": true}`, `[1, 2]`},
		"a lookahead":              {`{"pattern": "^(?!a)"}`, `"b"`},
		"a number with exponent":   {`{"type": "number"}`, `1e2`},
		"a hair below a bound":     {`{"maximum": 2}`, `1.99999999999999999999`},
		"an integer with fraction": {`{"type": "integer"}`, `1.0`},
		"an object in an enum":     {`{"enum": [{"b": 1}]}`, `{"b": 1}`},
		"a long text for a format": {`{"anyOf": [{"type": "string", "format": "uri"}]}`, `"https://example.com/` + strings.Repeat("a", 1_700_000) + `"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := mustCompile(t, test.schema)
			if s.Accepts([]byte(test.document)) {
				t.Error("the matcher accepts it")
			}
			if err := s.Validate(decode(t, test.document)); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestTheMatcherAcceptsNoTextThatIsNotStrictJSON(t *testing.T) {
	t.Parallel()
	s := mustCompile(t, `true`)
	for _, document := range []string{
		``, `{`, `{"a": 1, "a": 1}`, `[1] 2`, "\"\xff\"", `[1,]`, strings.Repeat(`[`, 65) + strings.Repeat(`]`, 65), `[1e9999]`,
		strings.Repeat("9", 500), `"` + strings.Repeat("x", 4<<20) + `"`,
	} {
		if s.Accepts([]byte(document)) {
			t.Errorf("%.40s is accepted", document)
		}
	}
}

func TestTheMatcherAllocatesHardlyAnything(t *testing.T) {
	s, document := mustCompile(t, issueSchema), []byte(issueCall)
	allocations := testing.AllocsPerRun(1000, func() {
		if !s.Accepts(document) {
			t.Fatal("not accepted")
		}
	})
	if allocations > 5 { // the race detector empties the pool of readers at random
		t.Errorf("%v allocations for a document", allocations)
	}
}
