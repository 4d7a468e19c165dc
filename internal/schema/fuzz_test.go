package schema

import (
	"errors"
	"strings"
	"testing"

	"github.com/toolroom/toolroom/internal/jsonx"
)

// FuzzASchemaAndADocument checks what must hold for any two texts: nothing
// panics, errors are of our own types, the matcher never accepts what the checker
// refuses, and repairs and examples are valid.
func FuzzASchemaAndADocument(f *testing.F) {
	for _, unit := range []string{`[`, `{"not":`, `{"items":`, `{"allOf":[`} { // nested deep
		f.Add([]byte(strings.Repeat(unit, 500)), []byte(strings.Repeat("[", 500)))
	}
	for i, group := range suite(f) {
		if i%7 == 0 && len(group.Tests) > 0 {
			f.Add([]byte(group.Schema), []byte(group.Tests[0].Data))
		}
	}
	f.Add([]byte(issueSchema), []byte(issueCall))
	f.Add([]byte(issueSchema), []byte(issueMistake))
	limits := Limits{Bytes: 1 << 14, Subschemas: 200, Steps: 20_000}
	f.Fuzz(func(t *testing.T, schema, document []byte) {
		s, err := Compile(schema, limits)
		if err != nil {
			var failed *Error
			if !errors.As(err, &failed) || failed.Kind == Internal {
				t.Fatalf("%s: %T %v", schema, err, err)
			}
			return
		}
		valid := func(text []byte, what string) {
			if err := s.Validate(decode(t, string(text))); err != nil {
				t.Fatalf("%s %s of %s: %v", what, text, schema, err)
			}
		}
		if example, ok := s.Example(); ok {
			valid(example, "the example")
		}
		accepted := s.Accepts(document)
		tree, err := jsonx.Decode(document, jsonx.Limits{})
		if err != nil {
			if accepted {
				t.Fatalf("accepted %s: %v", document, err)
			}
			return
		}
		err = s.Validate(tree)
		var failure *Failure
		var failed *Error
		switch {
		case err == nil:
		case accepted:
			t.Fatalf("the matcher of %s accepts %s, the checker does not: %v", schema, document, err)
		case errors.As(err, &failure):
			if len(failure.Problems) == 0 || err.Error() == "" {
				t.Fatalf("a failure without problems")
			}
		case !errors.As(err, &failed) || failed.Kind != TooLarge:
			t.Fatalf("%s of %s: %T %v", document, schema, err, err)
		}
		if repaired, _, ok := Repair(s, tree); ok {
			valid(repaired, "the repair")
		}
	})
}
