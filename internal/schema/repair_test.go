package schema

import (
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestARepairKeepsWhatTheCallerMeant(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ schema, document, want string }{
		"a call with five mistakes":        {issueSchema, issueMistake, `{"assignee":null,"body":"7","labels":["bug","p1"],"notify":true,"priority":5,"state":"open","title":"Crash on start"}`},
		"valid already":                    {`{"type": "integer"}`, `3`, `3`},
		"an example for a pattern":         {`{"type": "string", "pattern": "^[a-z/]+$", "examples": ["user/x"]}`, `"Bad Name!"`, `"user/x"`},
		"number in a string":               {`{"type": "integer"}`, `" 3 "`, `3`},
		"fraction to integer":              {`{"type": "integer"}`, `3.7`, `4`},
		"large number in a string":         {`{"type": "integer"}`, `"9007199254740993"`, `9007199254740993`},
		"number to string":                 {`{"type": "string"}`, `3`, `"3"`},
		"boolean in a string":              {`{"type": "boolean"}`, `"True"`, `true`},
		"one for a list":                   {`{"type": "array", "items": {"type": "integer"}}`, `"3"`, `[3]`},
		"a list of one":                    {`{"type": "string"}`, `["a"]`, `"a"`},
		"a list under the name of a text":  {`{"properties": {"path": {"type": "string"}, "files": {"type": "array"}}, "additionalProperties": false}`, `{"paths": ["a"]}`, `{"files":["a"]}`},
		"a list in a string":               {`{"type": "array", "items": {"type": "string"}}`, `"[\"a\", \"b\"]"`, `["a","b"]`},
		"an object in a string":            {`{"properties": {"filter": {"type": "object"}}}`, `{"filter": "{\"a\": 1}"}`, `{"filter":{"a":1}}`},
		"another writing":                  {`{"properties": {"user_id": {"type": "integer"}}, "additionalProperties": false}`, `{"userId": 1}`, `{"user_id":1}`},
		"a misspelt name that is required": {`{"properties": {"path": {"type": "string"}}, "required": ["path"]}`, `{"pth": "a", "mode": 1}`, `{"mode":1,"path":"a"}`},
		"the name of another tool":         {`{"properties": {"query": {"type": "string"}, "path": {"type": "string"}}, "required": ["query"], "additionalProperties": false}`, `{"pattern": "TODO"}`, `{"query":"TODO"}`},
		"one name of two":                  {`{"properties": {"a": {"type": "string"}, "b": {"type": "string"}}, "required": ["a", "b"], "additionalProperties": false}`, `{"other": "x"}`, `{"a":"<a>","b":"<b>"}`},
		"two names for one":                {`{"properties": {"a": {"type": "string"}}, "required": ["a"], "additionalProperties": false}`, `{"one": "x", "other": "y"}`, `{"a":"<a>"}`},
		"a name of another type":           {`{"properties": {"a": {"type": "string"}}, "required": ["a"], "additionalProperties": false}`, `{"other": 5}`, `{"a":"<a>"}`},
		"another name and a choice":        {`{"properties": {"a": {"type": "string", "enum": ["x"]}}, "required": ["a"], "additionalProperties": false}`, `{"other": "y"}`, `{"a":"x"}`},
		"a name inside":                    {`{"properties": {"o": {"type": "object", "properties": {"a": {"type": "array", "items": {"type": "integer"}}}, "required": ["a"], "additionalProperties": false}}}`, `{"o": {"values": [1]}}`, `{"o":{"a":[1]}}`},
		"an abbreviation":                  {`{"properties": {"command": {"type": "string"}, "cwd": {"type": "string"}}, "required": ["command"], "additionalProperties": false}`, `{"cmd": "ls"}`, `{"command":"ls"}`},
		"no abbreviation":                  {`{"properties": {"command": {"type": "string"}, "cwd": {"type": "string"}}, "required": ["command"], "additionalProperties": false}`, `{"cwdd": "ls"}`, `{"command":"<command>","cwd":"ls"}`},
		"an unknown name":                  {`{"properties": {"path": {}}, "additionalProperties": false}`, `{"path": 1, "verbose": true}`, `{"path":1}`},
		"missing with a default":           {`{"properties": {"a": {"type": "integer", "default": 7}}, "required": ["a"]}`, `{}`, `{"a":7}`},
		"missing with an enum":             {`{"properties": {"a": {"enum": ["x", "y"]}}, "required": ["a"]}`, `{}`, `{"a":"x"}`},
		"missing with an example":          {`{"properties": {"a": {"type": "string", "examples": ["README.md"]}}, "required": ["a"]}`, `{}`, `{"a":"README.md"}`},
		"missing with a type":              {`{"properties": {"a": {"type": "string"}, "b": {"type": "array", "items": {"type": "boolean"}, "minItems": 2}, "c": {"type": "integer", "exclusiveMinimum": 3}}, "required": ["a", "b", "c"]}`, `{}`, `{"a":"<a>","b":[false,false],"c":4}`},
		"missing with a pattern":           {`{"properties": {"a": {"pattern": "^[A-Z]{3}-\\d+(x|y)$"}}, "required": ["a"]}`, `{}`, `{"a":"AAA-1x"}`},
		"out of bounds":                    {`{"items": {"minimum": 0, "maximum": 10, "multipleOf": 0.5}}`, `[-1, 11, 3.3]`, `[0,10,3.5]`},
		"near an enum":                     {`{"enum": ["open", "closed"]}`, `"CLOSE"`, `"closed"`},
		"an abbreviation of an enum":       {`{"enum": ["python", "javascript"]}`, `"js"`, `"javascript"`},
		"an enum of numbers":               {`{"enum": [1, 2]}`, `"2"`, `2`},
		"too long":                         {`{"maxLength": 2}`, `"日本語"`, `"日本"`},
		"too many items":                   {`{"maxItems": 1, "uniqueItems": true}`, `[1, 1, 2]`, `[1]`},
		"equal items":                      {`{"uniqueItems": true}`, `["a", "b", "a", "b"]`, `["a","b"]`},
		"a wrong format":                   {`{"properties": {"at": {"type": "string", "format": "date"}}}`, `{"at": "yesterday"}`, `{"at":"2026-01-31"}`},
		"a forbidden property":             {`{"properties": {"a": false}}`, `{"a": 1, "b": 2}`, `{"b":2}`},
		"a bad name":                       {`{"propertyNames": {"maxLength": 3}}`, `{"a": 1, "long": 2}`, `{"a":1}`},
		"null for an optional one":         {`{"properties": {"a": {"type": "string"}}}`, `{"a": null}`, `{"a":"text"}`},
		"inside a branch":                  {`{"anyOf": [{"type": "null"}, {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}]}`, `{"n": "5"}`, `{"n":5}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, document := mustCompile(t, test.schema), decode(t, test.document)
			got, _, ok := Repair(s, document)
			if !ok || string(got) != test.want {
				t.Errorf("got %s, %t, want %s", got, ok, test.want)
			}
			if diff := cmp.Diff(decode(t, test.document), document); diff != "" {
				t.Errorf("the document itself was changed (-want +got):\n%s", diff)
			}
		})
	}
}

func TestARepairNamesTheValuesThatItDrops(t *testing.T) {
	t.Parallel()
	const edit = `{"properties": {"path": {}, "search": {"type": "string"}, "replace": {"type": "string"}, "in": {"properties": {"a": {}}, "additionalProperties": false}}, "required": ["path", "search", "replace"], "additionalProperties": false}`
	for name, test := range map[string]struct {
		document string
		want     []string
	}{
		"none":                      {`{"path": "p", "serach": "x", "replace": "y"}`, nil},
		"one that another took":     {`{"path": "p", "pattern": "x", "replace": "y"}`, nil},
		"two for two":               {`{"path": "p", "old_string": "x", "new_string": "y"}`, []string{"new_string", "old_string"}},
		"one that nothing asks for": {`{"path": "p", "search": "x", "replace": "y", "commit": "HEAD"}`, []string{"commit"}},
		"one inside":                {`{"path": "p", "search": "x", "replace": "y", "in": {"mode/b": 1}}`, []string{"in/mode~1b"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, got, ok := Repair(mustCompile(t, edit), decode(t, test.document))
			if diff := cmp.Diff(test.want, got); !ok || diff != "" {
				t.Errorf("ok %t (-want +got):\n%s", ok, diff)
			}
		})
	}
}

func TestThereIsNoRepairRatherThanAWrongOne(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ schema, document string }{
		"nothing is valid":        {`false`, `1`},
		"an enum of nothing":      {`{"enum": []}`, `1`},
		"bounds that contradict":  {`{"minimum": 3, "maximum": 2}`, `5`},
		"a pattern beyond us":     {`{"pattern": "^(?=.*\\d)(?=.*[a-z]).{8,}$"}`, `"x"`},
		"too long to show":        {`{"required": ["a"]}`, `{"b": "` + strings.Repeat("x", 9000) + `"}`},
		"too many values to mend": {`{"maxItems": 1}`, `[` + strings.Repeat(`1,`, 3000) + `1]`},
		"too many names to mend":  {`{"required": [` + numbered(400) + `], "properties": {` + strings.ReplaceAll(numbered(400), `,`, `: {}, `) + `: {}}}`, `{}`},
		"a number out of range":   {`{"type": "string"}`, `1e999`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got, _, ok := Repair(mustCompile(t, test.schema), decode(t, test.document)); ok {
				t.Errorf("got %s", got)
			}
		})
	}
}

func TestARepairLeavesTheSchemaAlone(t *testing.T) {
	t.Parallel()
	s := mustCompile(t, `{"properties": {"a": {"default": {"n": ["1"]}, "properties": {"n": {"items": {"type": "integer"}}}}}, "required": ["a"]}`)
	for range 3 {
		if got, _, ok := Repair(s, map[string]any{}); !ok || string(got) != `{"a":{"n":[1]}}` {
			t.Fatalf("got %s, %t", got, ok)
		}
	}
}

func TestAnExampleIsValidAndMinimal(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ schema, want string }{
		"a tool":                {issueSchema, `{"labels":[],"title":"<title>"}`},
		"its own example":       {`{"type": "object", "examples": [{"city": "Bern"}], "required": ["city"]}`, `{"city":"Bern"}`},
		"nested":                {`{"$defs": {"p": {"type": "object", "required": ["x"], "properties": {"x": {"type": "number", "minimum": 1.5}}}}, "properties": {"at": {"$ref": "#/$defs/p"}}, "required": ["at"]}`, `{"at":{"x":1.5}}`},
		"more than null":        {`{"anyOf": [{"type": "null"}, {"type": "string", "format": "uuid"}]}`, `"123e4567-e89b-12d3-a456-426614174000"`},
		"joined":                {`{"allOf": [{"required": ["a"], "properties": {"a": {"type": "integer"}}}, {"required": ["b"], "properties": {"b": {"const": "x"}}}]}`, `{"a":0,"b":"x"}`},
		"a list with a minimum": {`{"minItems": 2, "prefixItems": [{"type": "boolean"}], "items": {"type": "string", "minLength": 6}}`, `[false,"textxx"]`},
		"anything":              {`true`, `null`},
		"an endless list":       {`{"type": "object", "properties": {"next": {"anyOf": [{"$ref": "#"}, {"type": "null"}]}}, "required": ["next"]}`, `{"next":null}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := mustCompile(t, test.schema)
			got, ok := s.Example()
			if !ok || string(got) != test.want {
				t.Errorf("got %s, %t, want %s", got, ok, test.want)
			}
		})
	}
}

func TestWhereNothingIsValidThereIsNoExample(t *testing.T) {
	t.Parallel()
	for _, schema := range []string{`false`, `{"required": ["a"], "properties": {"a": {"enum": []}}}`, `{"minItems": 1000000000, "items": {"type": "object"}}`, `{"minLength": 1000000000}`} {
		if got, ok := mustCompile(t, schema).Example(); ok {
			t.Errorf("%s: got %s", schema, got)
		}
	}
}

func TestEveryFormatHasAnExampleOfItself(t *testing.T) {
	t.Parallel()
	for _, name := range []string{
		"date", "time", "date-time", "duration", "email", "hostname", "ipv4", "ipv6", "uri", "iri", "uri-reference", "iri-reference",
		"uri-template", "uuid", "json-pointer", "relative-json-pointer", "regex", "semver", "idn-email", "idn-hostname",
	} {
		example, ok := formatExample(name)
		if !ok {
			t.Errorf("%s has none", name)
		}
		if err := mustCompile(t, `{"format": "`+name+`"}`).Validate(example); err != nil {
			t.Error(err)
		}
	}
}

func numbered(n int) string {
	names := make([]string, n)
	for i := range names {
		names[i] = strconv.Quote("name" + strconv.Itoa(i))
	}
	return strings.Join(names, ",")
}
