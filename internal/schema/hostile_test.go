package schema

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/toolroom/toolroom/internal/jsonx"
)

// join writes n things with commas between them.
func join(n int, thing func(int) string) string {
	things := make([]string, n)
	for i := range things {
		things[i] = thing(i)
	}
	return strings.Join(things, ",")
}

func wrap(open string, n int, inside, end string) string {
	return strings.Repeat(open, n) + inside + strings.Repeat(end, n)
}

// wantKind fails the test unless err is an Error of one kind.
func wantKind(t *testing.T, err error, want Kind) {
	t.Helper()
	var failed *Error
	if !errors.As(err, &failed) || failed.Kind != want {
		t.Errorf("got %v, want an error of kind %s", err, want)
	}
}

func TestSchemasBeyondTheBoundsAreRefused(t *testing.T) {
	t.Parallel()
	for name, schema := range map[string]string{
		"many subschemas":                `{"properties": {` + join(10_001, func(i int) string { return fmt.Sprintf(`"p%d": true`, i) }) + `}}`,
		"a long name above many":         `{"properties": {"` + strings.Repeat("k", 100_000) + `": {"properties": {` + join(1000, func(i int) string { return fmt.Sprintf(`"p%d": true`, i) }) + `}}}}`,
		"a long name above many scalars": `{"` + strings.Repeat("k", 500_000) + `": [` + join(100_000, func(int) string { return `1` }) + `, {}, [], 1e401]}`,
		"many composites to compare":     `{"enum": [` + join(2001, func(i int) string { return fmt.Sprintf(`[%d]`, i) }) + `]}`,
		"a huge exponent":                `{"minimum": 1e999999}`,
		"a long number":                  `{"const": ` + strings.Repeat("9", 500) + `}`,
		"a long chain of references":     `{"$ref": "#/$defs/d0", "$defs": {` + join(100, func(i int) string { return fmt.Sprintf(`"d%d": {"$ref": "#/$defs/d%d"}`, i, i+1) }) + `, "d100": {"items": {"$ref": "#/$defs/d0"}}}}`,
		"a long chain of combinations":   wrap(`{"not":`, 70, `{}`, `}`),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := Compile([]byte(schema), Limits{})
			wantKind(t, err, TooLarge)
		})
	}
}

func TestTextBeyondTheLimitsIsRefused(t *testing.T) {
	t.Parallel()
	for _, schema := range []string{
		wrap(`{"items":`, 130, `{}`, `}`),
		wrap(`{"items":`, 100_000, `{}`, `}`),
		`{"description": "` + strings.Repeat("x", 1<<20) + `"}`,
	} {
		_, err := Compile([]byte(schema), Limits{})
		wantKind(t, err, Syntax)
	}
}

func TestPatternsThatGrowAreRefused(t *testing.T) {
	t.Parallel()
	for name, schema := range map[string]string{
		"one repetition":        `{"pattern": "(` + strings.Repeat("x", 300) + `){1000}"}`,
		"many repetitions":      `{"allOf": [` + join(100, func(int) string { return `{"pattern": "(abcdefghij){990}"}` }) + `]}`,
		"a long pattern":        `{"pattern": "` + strings.Repeat("x", 9000) + `"}`,
		"open groups":           `{"pattern": "` + strings.Repeat("(", 8000) + `"}`,
		"open lookaheads":       `{"pattern": "` + strings.Repeat("(?=", 300) + `"}`,
		"nested lookaheads":     `{"pattern": "` + wrap("(?=", 21, "a", ")") + `"}`,
		"a long lookahead":      `{"pattern": "(?=` + strings.Repeat("x", 1100) + `)"}`,
		"beyond any repetition": `{"pattern": "(?=x)a{99999999999999999999}"}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := Compile([]byte(schema), Limits{})
			wantKind(t, err, Pattern)
		})
	}
}

func TestASlowCompilationIsStopped(t *testing.T) {
	t.Parallel()
	_, err := Compile([]byte(issueSchema), Limits{CompileTime: 1})
	wantKind(t, err, TooLarge)
	if err == nil || !strings.Contains(err.Error(), "too long to compile") {
		t.Errorf("got %v", err)
	}
}

// doubling is a chain of n definitions, each of which refers to the next twice.
func doubling(n int, link string) string {
	return join(n, func(i int) string {
		return fmt.Sprintf(`"d%d": `, i) + strings.ReplaceAll(link, "NEXT", fmt.Sprintf(`{"$ref": "#/$defs/d%d"}`, i+1))
	}) + fmt.Sprintf(`, "d%d": {"type": "string"}`, n)
}

func TestWorkBeyondTheLimitIsStopped(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ schema, document string }{
		"doubling at one value": {
			`{"$ref": "#/$defs/d0", "$defs": {` + doubling(28, `{"allOf": [NEXT, NEXT]}`) + `}}`, `"x"`,
		},
		"doubling where only the outcome counts": {
			`{"not": {"$ref": "#/$defs/d0"}, "$defs": {` + doubling(28, `{"dependentSchemas": {"a": NEXT, "b": NEXT}}`) + `}}`, `{"a": 1, "b": 1}`,
		},
		"doubling with each level": {
			`{"items": {"allOf": [{"$ref": "#"}, {"$ref": "#"}]}}`, wrap("[", 60, "", "]"),
		},
		"doubling in a dynamic scope": {
			`{"$dynamicAnchor": "a", "items": {"allOf": [{"$dynamicRef": "#a"}, {"$dynamicRef": "#a"}]}}`, wrap("[", 60, "", "]"),
		},
		"a large enum for many items": {
			`{"items": {"enum": [` + join(9000, func(i int) string { return fmt.Sprint(i) }) + `]}}`, `[` + join(100_000, func(int) string { return "-1" }) + `]`,
		},
		"arrays with equal hashes": {
			`{"uniqueItems": true}`, `[` + join(4096, func(i int) string {
				return `["` + strings.NewReplacer("0", `x\u0004`, "1", `x","`).Replace(fmt.Sprintf("%012b", i)) + `"]`
			}) + `]`,
		},
		"many errors": {
			`{"items": {"type": "string"}}`, `[` + join(300_000, func(int) string { return "1" }) + `]`,
		},
		"a large pattern for a long text": {
			`{"pattern": "(x+x+){1,300}y"}`, `"` + strings.Repeat("x", 100_000) + `"`,
		},
		"a pattern that backtracks": {
			`{"pattern": "^(?=(a+)+$)(a+)+$"}`, `"` + strings.Repeat("a", 200) + `!"`,
		},
		"many patterns for many names": {
			`{"patternProperties": {` + join(1000, func(i int) string { return fmt.Sprintf(`"^(a|b)+%d$": {}`, i) }) + `}}`,
			`{` + join(1000, func(i int) string { return fmt.Sprintf(`"aaaaaaaaaaaaaaaa%d": 1`, i) }) + `}`,
		},
		"many patterns as values": {
			`{"items": {"format": "regex"}}`, `[` + join(1000, func(i int) string { return fmt.Sprintf(`"(a{1,900}b){%d}"`, 1+i%3) }) + `]`,
		},
		"unevaluated members over and over": {
			`{"unevaluatedProperties": false, "allOf": [` + join(1500, func(int) string { return `{"properties": {"a": true}}` }) + `]}`,
			`{` + join(5000, func(i int) string { return fmt.Sprintf(`"p%d": 1`, i) }) + `}`,
		},
		"a format that splits a long text": {
			`{"format": "uuid"}`, `"` + strings.Repeat("-", 4_000_000) + `"`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := mustCompile(t, test.schema)
			if s.Accepts([]byte(test.document)) {
				t.Error("the matcher accepts it")
			}
			err := s.Validate(decode(t, test.document))
			wantKind(t, err, TooLarge)
			if _, _, ok := Repair(s, decode(t, test.document)); ok {
				t.Error("a repair came out")
			}
		})
	}
}

func TestTheJudgeWorksAgainAfterItWasStopped(t *testing.T) {
	t.Parallel()
	s := mustCompile(t, `{"items": {"allOf": [{"$ref": "#"}, {"$ref": "#"}]}, "maxItems": 2}`)
	wantKind(t, s.Validate(decode(t, wrap("[", 60, "", "]"))), TooLarge)
	if err := s.Validate(decode(t, `[[], [[]]]`)); err != nil {
		t.Error(err)
	}
	var failure *Failure
	if err := s.Validate(decode(t, `[[], [1, 2, [3, 4, 5]]]`)); !errors.As(err, &failure) {
		t.Errorf("got %v, want a *Failure", err)
	}
}

func TestOrdinaryLargeDocumentsStayWithinTheLimit(t *testing.T) {
	t.Parallel()
	rows := `{"type": "array", "items": {"type": "object", "properties": {
		"id": {"type": "integer"}, "name": {"type": "string"}, "tags": {"type": "array", "items": {"type": "string"}, "uniqueItems": true},
		"kind": {"enum": ["a", "b", "c"]}}, "required": ["id"]}}`
	s := mustCompile(t, rows)
	document := `[` + join(5000, func(i int) string {
		return fmt.Sprintf(`{"id": %d, "name": "n%d", "tags": ["x", "y"], "kind": "b"}`, i, i)
	}) + `]`
	if err := s.Validate(decode(t, document)); err != nil {
		t.Error(err)
	}
}

func TestDocumentsTooDeepForTheValidatorAreRefused(t *testing.T) {
	t.Parallel()
	s := mustCompile(t, `{"items": {"$ref": "#"}}`)
	deep, err := jsonx.Decode([]byte(wrap("[", 300, "", "]")), jsonx.Limits{Depth: 1000})
	if err != nil {
		t.Fatal(err)
	}
	err = s.Validate(deep)
	if err == nil || !strings.Contains(err.Error(), "expected at most 256 levels of nesting, got more") {
		t.Errorf("got %v", err)
	}
}

func TestArgumentsOfManyCombinationsAreCheckedAtOnce(t *testing.T) {
	t.Parallel()
	const last = 60
	for keyword, kind := range map[string]string{"allOf": "object", "anyOf": "string", "oneOf": "string"} {
		definitions := join(last, func(i int) string {
			return fmt.Sprintf(`"d%d": {%q: [{"$ref": "#/$defs/d%d"}, {"$ref": "#/$defs/d%[3]d"}]}`, i, keyword, i+1)
		})
		s, err := Compile([]byte(fmt.Sprintf(`{"$ref": "#/$defs/d30", "$defs": {%s, "d%d": {"type": %q}}}`, definitions, last, kind)), Limits{})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.CheckArguments(); (err == nil) != (kind == "object") {
			t.Errorf("%s of %s: %v", keyword, kind, err)
		}
	}
}

func TestAnErrorDescribesPartOfVeryManyAlternatives(t *testing.T) { // not parallel: it counts allocations
	refs := func(to string) string {
		return join(600, func(int) string { return `{"$ref": "#/$defs/` + to + `"}` })
	}
	s := mustCompile(t, fmt.Sprintf(`{"required": ["p"], "properties": {"p": {"anyOf": [%s]}}, "$defs": {"b": {"anyOf": [%s]}, "c": {"anyOf": [%s]}, "d": {}}}`, refs("b"), refs("c"), refs("d")))
	looked := testing.AllocsPerRun(1, func() {
		if err := s.Validate(map[string]any{}); err == nil {
			t.Error("it is valid")
		}
	})
	if looked > 100_000 {
		t.Errorf("the error took %g allocations", looked)
	}
}
