package schema

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
)

func TestARefusedSchemaSaysWhereAndWhy(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		schema, pointer, message string
		kind                     Kind
	}{
		"not JSON": {
			`{"type": "string",}`, "", `schema: comma before a closing bracket at line 1, column 18: remove the comma`, Syntax,
		},
		"duplicate key": {
			`{"type": "string", "type": "null"}`, "", `schema: duplicate key "type" at line 1, column 20 (/type): keep one of them`, Syntax,
		},
		"not a schema": {
			`["string"]`, "", `schema: expected an object or a boolean, got array of 1 item: write a schema such as {"type": "object"}`, Syntax,
		},
		"unknown dialect": {
			`{"$schema": "http://json-schema.org/draft-03/schema#"}`, "/$schema",
			`schema at /$schema: dialect "http://json-schema.org/draft-03/schema#" is not supported: use https://json-schema.org/draft/2020-12/schema, or draft 2019-09, 7, 6 or 4`, Dialect,
		},
		"wrong type of a keyword": {
			`{"properties": {"a": {"type": "strin"}, "b": {"minLength": -1}}}`, "/properties/a/type",
			`schema at /properties/a/type: not a valid schema: expected one of "array", "boolean", "integer", "null", "number", "object", "string", got string "strin"; ` +
				`/properties/b/minLength: expected at least 0, got number -1`, Invalid,
		},
		"reference to nothing": {
			`{"properties": {"a": {"$ref": "#/$defs/a~1b"}}}`, "",
			`schema: reference to "#/$defs/a~1b", which is not there: define it, or correct the reference`, Reference,
		},
		"anchor that is missing": {
			`{"$ref": "#here"}`, "", `schema: reference to the anchor "here", which is not there: define it, or correct the reference`, Reference,
		},
		"reference to a file": {
			`{"$ref": "file:///etc/passwd"}`, "",
			`schema: reference to "file:///etc/passwd", which is outside the schema and not fetched: put the definition under $defs and refer to it as #/$defs/NAME`, Reference,
		},
		"relative reference": {
			`{"$ref": "other.json#/a"}`, "",
			`schema: reference to "toolroom:///other.json", which is outside the schema and not fetched: put the definition under $defs and refer to it as #/$defs/NAME`, Reference,
		},
		"reference to itself": {
			`{"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"anyOf": [{"$ref": "#/$defs/a"}]}}, "$ref": "#/$defs/a"}`, "/$defs/a",
			`schema at /$defs/a: refers to itself without going into the document: put the reference under properties or items`, Reference,
		},
		"dynamic reference to itself": {
			`{"$dynamicAnchor": "a", "allOf": [{"$dynamicRef": "#a"}]}`, "",
			`schema: refers to itself without going into the document: put the reference under properties or items`, Reference,
		},
		"malformed pattern": {
			`{"items": {"pattern": "a(b"}}`, "/items/pattern",
			"schema at /items/pattern: pattern \"a(b\" cannot be used: error parsing regexp: missing closing ) in `a(b`: correct or simplify the regular expression", Pattern,
		},
		"malformed name pattern in draft 7": {
			`{"$schema": "http://json-schema.org/draft-07/schema#", "items": [{"patternProperties": {"[a": true}}, {"title": "x"}]}`, "/items/0/patternProperties/[a",
			"schema at /items/0/patternProperties/[a: pattern \"[a\" cannot be used: error parsing regexp: unterminated [] set in `[a`: correct or simplify the regular expression", Pattern,
		},
		"same id twice": {
			`{"properties": {"a": {"$id": "x"}, "b": {"$id": "x"}}}`, "/properties/b",
			`schema at /properties/b: has the same id as /properties/a: rename one of them`, Reference,
		},
		"same anchor twice": {
			`{"properties": {"a": {"$anchor": "x"}, "b": {"$anchor": "x"}}}`, "/properties/b",
			`schema at /properties/b: has the same anchor as /properties/a: rename one of them`, Reference,
		},
		"malformed id": {
			`{"$schema": "http://json-schema.org/draft-04/schema#", "items": {"id": "%zz"}}`, "/items", `schema at /items: the id is not a URI reference: correct it`, Reference,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := Compile([]byte(test.schema), Limits{})
			var failed *Error
			if !errors.As(err, &failed) {
				t.Fatalf("got %T %v, want an *Error", err, err)
			}
			if failed.Kind != test.kind {
				t.Errorf("kind %s, want %s", failed.Kind, test.kind)
			}
			if failed.Pointer != test.pointer {
				t.Errorf("pointer %q, want %q", failed.Pointer, test.pointer)
			}
			if err.Error() != test.message {
				t.Errorf("\n got %s\nwant %s", err, test.message)
			}
		})
	}
}

func TestTheDialectDecidesWhatAKeywordMeans(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		schema   string
		document string
		valid    bool
	}{
		"draft 4: exclusiveMinimum is a flag":         {`{"$schema": "http://json-schema.org/draft-04/schema#", "minimum": 1, "exclusiveMinimum": true}`, `1`, false},
		"draft 6: exclusiveMinimum is a number":       {`{"$schema": "http://json-schema.org/draft-06/schema#", "exclusiveMinimum": 1}`, `1`, false},
		"draft 7: what stands beside $ref is ignored": {`{"$schema": "http://json-schema.org/draft-07/schema", "$ref": "#/definitions/a", "maxLength": 1, "definitions": {"a": {"type": "string"}}}`, `"ab"`, true},
		"2019-09: what stands beside $ref counts":     {`{"$schema": "https://json-schema.org/draft/2019-09/schema", "$ref": "#/$defs/a", "maxLength": 1, "$defs": {"a": {"type": "string"}}}`, `"ab"`, false},
		"2019-09: items is a list":                    {`{"$schema": "https://json-schema.org/draft/2019-09/schema", "items": [{"type": "null"}]}`, `[1]`, false},
		"no $schema means 2020-12, with prefixItems":  {`{"prefixItems": [{"type": "null"}]}`, `[1]`, false},
		"format is asserted everywhere":               {`{"format": "ipv4"}`, `"1.2.3.400"`, false},
		"a boolean schema":                            {`false`, `1`, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := mustCompile(t, test.schema)
			if err := s.Validate(decode(t, test.document)); (err == nil) != test.valid {
				t.Errorf("%s: valid is %t, got %v", test.document, test.valid, err)
			}
		})
	}
}

func TestMetaSchemasAreBuiltIn(t *testing.T) {
	t.Parallel()
	s := mustCompile(t, `{"properties": {"schema": {"$ref": "https://json-schema.org/draft/2020-12/schema"}}}`)
	deep := strings.Repeat(`{"properties": {"a": `, 12) + `{"type": "object"}` + strings.Repeat(`}}`, 12)
	if err := s.Validate(decode(t, `{"schema": `+deep+`}`)); err != nil {
		t.Errorf("a valid schema as an argument: %v", err)
	}
	err := s.Validate(decode(t, `{"schema": {"items": {"type": "objet"}}}`))
	if err == nil || !strings.HasPrefix(err.Error(), `/schema/items/type: expected one of "array", `) || !strings.HasSuffix(err.Error(), `did you mean "object"?`) {
		t.Errorf("an invalid schema as an argument: %v", err)
	}
}

func TestNothingIsEverFetched(t *testing.T) {
	t.Parallel()
	var requests atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		requests.Add(1)
		w.Write([]byte(`{}`))
	}))
	defer server.Close()
	for _, schema := range []string{
		`{"$ref": "URL/a.json"}`,
		`{"$schema": "URL/meta.json"}`,
		`{"$defs": {"a": {"$id": "URL/a", "$schema": "URL/meta.json"}}}`,
		`{"$id": "URL/root.json", "properties": {"a": {"$ref": "a.json"}}}`,
		`{"$dynamicRef": "URL/a.json#x"}`,
		`{"$schema": "http://json-schema.org/draft-04/schema#", "id": "URL/root.json", "items": {"$ref": "a.json"}}`,
	} {
		schema = strings.ReplaceAll(schema, "URL", server.URL)
		if _, err := Compile([]byte(schema), Limits{}); err == nil {
			t.Errorf("%s compiled", schema)
		}
	}
	if n := requests.Load(); n != 0 {
		t.Errorf("%d requests were made", n)
	}
}

func TestPatternsOfECMAScriptWork(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ pattern, yes, no string }{
		"lookahead, as zod writes it for an e-mail address": {
			`^(?!\.)(?!.*\.\.)([A-Za-z0-9_'+\-\.]*)[A-Za-z0-9_+-]@([A-Za-z0-9][A-Za-z0-9\-]*\.)+[A-Za-z]{2,}$`, "me@example.com", "me..too@example.com",
		},
		"code points":                {`^[\u4e00-\u9fa5]+$`, "漢字", "kanji"},
		"control letter":             {`^\cA$`, "\x01", "A"},
		"named group":                {`^(?<year>\d{4})$`, "2026", "26"},
		"back reference":             {`^(a|b)\1$`, "aa", "ab"},
		"escaped slash":              {`^\/api\/$`, "/api/", "api"},
		"unanchored":                 {`b`, "abc", "ac"},
		"the end is the very end":    {`^a$`, "a", "a\n"},
		"large characters are whole": {`^.$`, "🐲", "🐲🐲"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := mustCompile(t, string(encode(t, map[string]any{"type": "string", "pattern": test.pattern})))
			if err := s.Validate(test.yes); err != nil {
				t.Error(err)
			}
			if err := s.Validate(test.no); err == nil {
				t.Errorf("%q was accepted", test.no)
			}
		})
	}
}
