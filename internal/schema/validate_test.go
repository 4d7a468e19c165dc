package schema

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// messages validates and returns the messages, nil if the document is valid.
func messages(t *testing.T, schema, document string) []string {
	t.Helper()
	err := mustCompile(t, schema).Validate(decode(t, document))
	if err == nil {
		return nil
	}
	var failure *Failure
	if !errors.As(err, &failure) {
		t.Fatalf("got %T %v, want a *Failure", err, err)
	}
	var all []string
	for _, p := range failure.Problems {
		all = append(all, p.Message)
	}
	return all
}

func TestAMessageSaysWhatWasExpectedAndWhatCame(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		schema, document string
		want             []string
	}{
		"type of an element":    {`{"properties": {"labels": {"items": {"type": "string"}}}}`, `{"labels": [3]}`, []string{`/labels/0: expected string, got number 3`}},
		"type of the whole":     {`{"type": "object"}`, `"a"`, []string{`(root): expected object, got string "a"`}},
		"several types":         {`{"type": ["integer", "null"]}`, `1.5`, []string{`(root): expected null or integer, got number 1.5`}},
		"a long text is cut":    {`{"type": "null"}`, `"` + strings.Repeat("é", 50) + `"`, []string{`(root): expected null, got string "` + strings.Repeat("é", 40) + `…"`}},
		"missing property":      {`{"properties": {"a": {"type": "array", "items": {"type": "integer"}}}, "required": ["a", "b"]}`, `{}`, []string{`/a: missing required property "a", expected array of integer`, `/b: missing required property "b", expected any value`}},
		"missing by reference":  {`{"$defs": {"a": {"enum": ["x", "y"]}}, "allOf": [{"properties": {"a": {"$ref": "#/$defs/a"}}}], "required": ["a"]}`, `{}`, []string{`/a: missing required property "a", expected one of "x", "y"`}},
		"missing with another":  {`{"dependentRequired": {"a": ["b"]}}`, `{"a": 1}`, []string{`/b: missing property "b", required together with "a", expected any value`}},
		"misspelt property":     {`{"properties": {"labels": {}, "title": {}}, "additionalProperties": false}`, `{"lables": 1}`, []string{`/lables: unknown property "lables", did you mean "labels"?`}},
		"a list for a text":     {`{"properties": {"path": {"type": "string"}, "files": {"type": "array"}, "all": {"type": "boolean"}}, "additionalProperties": false}`, `{"paths": ["a"]}`, []string{`/paths: unknown property "paths", did you mean "files"?`}},
		"a list for one of two": {`{"properties": {"path": {"type": "string"}, "files": {"type": "array"}, "tags": {"type": "array"}}, "additionalProperties": false}`, `{"paths": ["a"]}`, []string{`/paths: unknown property "paths", known are files, path, tags`}},
		"other writing":         {`{"properties": {"user_id": {}}, "additionalProperties": false}`, `{"userId": 1}`, []string{`/userId: unknown property "userId", did you mean "user_id"?`}},
		"unknown property":      {`{"properties": {"b": {}, "a": {}}, "additionalProperties": false}`, `{"zzz": 1}`, []string{`/zzz: unknown property "zzz", known are a, b`}},
		"unevaluated property":  {`{"allOf": [{"properties": {"size": {}}}], "unevaluatedProperties": false}`, `{"sise": 1}`, []string{`/sise: unknown property "sise", did you mean "size"?`}},
		"forbidden property":    {`{"properties": {"a": false}}`, `{"a": 1}`, []string{`/a: expected nothing, got number 1`}},
		"name of a property":    {`{"propertyNames": {"maxLength": 3}}`, `{"a/bcd": 1}`, []string{`/a~1bcd: expected at most 3 characters, got string "a/bcd" of 5`}},
		"a name far down":       {`{"additionalProperties": {"additionalProperties": {"propertyNames": {"pattern": "^[a-z]+$"}}}}`, `{"x": {"y": {"A": 1}}, "z": {"y": {"b": 1}, "z": {}}}`, []string{`/x/y/A: expected string that matches ^[a-z]+$, got string "A"`}},
		"enum, abbreviated":     {`{"enum": ["python", "javascript", "shell"]}`, `"js"`, []string{`(root): expected one of "python", "javascript", "shell", got string "js", did you mean "javascript"?`}},
		"enum, of two":          {`{"enum": ["minute", "month"]}`, `"mt"`, []string{`(root): expected one of "minute", "month", got string "mt"`}},
		"enum":                  {`{"enum": ["open", "closed", 3]}`, `"Opne"`, []string{`(root): expected one of "open", "closed", 3, got string "Opne", did you mean "open"?`}},
		"long enum":             {`{"enum": [0,1,2,3,4,5,6,7,8,9,10,11]}`, `12`, []string{`(root): expected one of 0, 1, 2, 3, 4, 5, 6, 7, 8, 9 and 2 more, got number 12`}},
		"const":                 {`{"const": {"a": 1}}`, `[]`, []string{`(root): expected {"a":1}, got array of 0 items`}},
		"bounds of a number":    {`{"minimum": 1.5, "multipleOf": 0.25}`, `0.1`, []string{`(root): expected a multiple of 0.25, got number 0.1`, `(root): expected at least 1.5, got number 0.1`}},
		"exact large bound":     {`{"maximum": 9007199254740992}`, `9007199254740993`, []string{`(root): expected at most 9007199254740992, got number 9007199254740993`}},
		"length":                {`{"minLength": 3}`, `"日本"`, []string{`(root): expected at least 3 characters, got string "日本" of 2`}},
		"pattern":               {`{"pattern": "^a+$"}`, `"b"`, []string{`(root): expected string that matches ^a+$, got string "b"`}},
		"format":                {`{"format": "date-time"}`, `"today"`, []string{`(root): expected string in the format date-time, such as "2026-01-31T12:30:00Z", got string "today"`}},
		"number of items":       {`{"minItems": 1, "items": {}}`, `[]`, []string{`(root): expected at least 1 item, got array of 0 items`}},
		"equal items":           {`{"uniqueItems": true}`, `[1, 2, 1.0]`, []string{`(root): expected items that differ, got items 0 and 2 alike`}},
		"contains":              {`{"contains": {"type": "null"}}`, `[1]`, []string{`(root): expected an item that is null, got array of 1 item`}},
		"not":                   {`{"not": {"type": "string"}}`, `"a"`, []string{`(root): expected a value that is not string, got string "a"`}},
		"two of oneOf":          {`{"oneOf": [{"minimum": 1}, {"minimum": 2}]}`, `3`, []string{`(root): expected a value that fits one alternative only, got one that fits alternatives 0 and 1`}},
		"no type of anyOf":      {`{"anyOf": [{"type": "string"}, {"type": "null"}]}`, `3`, []string{`(root): expected null or string, got number 3`}},
		"closest of anyOf":      {`{"anyOf": [{"type": "null"}, {"type": "object", "required": ["a", "b"]}]}`, `{}`, []string{`/a: missing required property "a", expected any value`, `/b: missing required property "b", expected any value`}},
		"the branch with this kind": {
			`{"oneOf": [{"properties": {"kind": {"const": "a"}, "x": {"type": "null"}}}, {"properties": {"kind": {"const": "b"}, "x": {"type": "string"}, "y": {"type": "null"}}}]}`,
			`{"kind": "b", "x": 1, "y": 1}`,
			[]string{`/x: expected string, got number 1`, `/y: expected null, got number 1`},
		},
		"a huge exponent": {`{"type": "integer"}`, `{"a": [1, 1e999999]}`, []string{`/a/1: expected a number in range, got number 1e999999 with an exponent beyond 400`}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(test.want, messages(t, test.schema, test.document)); diff != "" {
				t.Errorf("messages (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAllProblemsOfACallComeAtOnceInTheOrderOfTheDocument(t *testing.T) {
	t.Parallel()
	want := []Problem{
		{"/body", "/properties/body/type", "string", "number 7", `/body: expected string, got number 7`},
		{"/labels", "/required", "array of string", "nothing", `/labels: missing required property "labels", expected array of string`},
		{"/lables", "/additionalProperties", "no such property", "array of 2 items", `/lables: unknown property "lables", did you mean "labels"?`},
		{"/priority", "/properties/priority/maximum", "at most 5", "number 9", `/priority: expected at most 5, got number 9`},
		{"/state", "/properties/state/enum", `one of "open", "closed", "draft"`, `string "opn"`, `/state: expected one of "open", "closed", "draft", got string "opn", did you mean "open"?`},
	}
	s, document := mustCompile(t, issueSchema), decode(t, issueMistake)
	for range 20 { // the validator walks maps in random order
		var failure *Failure
		if err := s.Validate(document); !errors.As(err, &failure) {
			t.Fatalf("got %v", err)
		}
		if diff := cmp.Diff(want, failure.Problems); diff != "" {
			t.Fatalf("problems (-want +got):\n%s", diff)
		}
	}
}

func TestManyProblemsAreCutAndCounted(t *testing.T) {
	t.Parallel()
	s := mustCompile(t, `{"items": {"type": "string"}}`)
	err := s.Validate(decode(t, `[`+strings.Repeat(`1,`, 2999)+`1]`))
	var failure *Failure
	if !errors.As(err, &failure) {
		t.Fatalf("got %v", err)
	}
	if len(failure.Problems) != 20 || failure.More != 2980 {
		t.Errorf("%d problems and %d more, want 20 and 2,980", len(failure.Problems), failure.More)
	}
	if last := failure.Problems[19].Pointer; last != "/19" {
		t.Errorf("the last listed is %s, want /19", last)
	}
	if !strings.HasSuffix(err.Error(), "; and 2980 more") {
		t.Errorf("got %s", err)
	}
}

func TestGoValuesThatAreNoJSONAreRefused(t *testing.T) {
	t.Parallel()
	s := mustCompile(t, `{"items": {"type": "number"}}`)
	if err := s.Validate([]any{1, 2.5, int64(3)}); err != nil {
		t.Errorf("Go numbers: %v", err)
	}
	for _, value := range []any{math.NaN(), []string{"a"}, struct{}{}} {
		err := s.Validate([]any{value})
		if want := fmt.Sprintf("/0: expected a JSON value, got Go type %T", value); err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

func TestASchemaServesManyGoroutines(t *testing.T) {
	t.Parallel()
	s := mustCompile(t, issueSchema)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 50 {
				if !s.Accepts([]byte(issueCall)) {
					t.Error("the valid text is not accepted")
				}
				if err := s.Validate(decode(t, issueCall)); err != nil {
					t.Error(err)
				}
				if err := s.Validate(decode(t, issueMistake)); err == nil {
					t.Error("the invalid document is accepted")
				}
				if _, _, ok := Repair(s, decode(t, issueMistake)); !ok {
					t.Error("no repair")
				}
			}
		})
	}
	wg.Wait()
}
