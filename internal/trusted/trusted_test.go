package trusted_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/toolroom/toolroom/internal/trusted"
)

func TestMappings(t *testing.T) {
	t.Parallel()
	const value = `{"items": [{"name": "a", "n": 1}, {"name": "b", "n": 2}], "big": 123456789012345678901, "__proto__": {"x": 1}}`
	for name, test := range map[string]struct {
		program trusted.Program
		want    string
	}{
		"an expression":           {trusted.Program{Expr: `map(filter(value.items, .n > args.over), .name)`}, `["b"]`},
		"a function":              {trusted.Program{JS: `return value.items.filter(i => i.n > args.over).map(i => i.name)`}, `["b"]`},
		"many lines":              {trusted.Program{JS: "let sum = 0\nfor (const i of value.items) sum += i.n\nreturn {sum} // done"}, `{"sum":3}`},
		"large numbers are whole": {trusted.Program{JS: `return value.big + 1n`}, `123456789012345678902`},
		"and in expressions":      {trusted.Program{Expr: `value.big`}, `123456789012345678901`},
		"keys are data":           {trusted.Program{JS: `return [value.x === undefined, Object.keys(value).length]`}, `[true,3]`},
		"nothing":                 {trusted.Program{JS: ``, Expr: `nil`}, `null`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, err := trusted.Compile(test.program, "value", "args")
			if err != nil {
				t.Fatal(err)
			}
			for range 2 { // nothing of a run is left for the next
				got, err := c.Run(t.Context(), json.RawMessage(value), json.RawMessage(`{"over": 1}`))
				if err != nil || string(got) != test.want {
					t.Errorf("got %s, %v; want %s", got, err, test.want)
				}
			}
		})
	}
}

func TestAMappingThatCannotBeReadSaysWhere(t *testing.T) {
	t.Parallel()
	for text, p := range map[string]trusted.Program{
		"unknown name nothing": {Expr: "nothing.here"},
		"Unexpected token":     {JS: "return ]"},
		"both":                 {Expr: "1", JS: "return 1"},
		"write expr or js":     {},
	} {
		if _, err := trusted.Compile(p, "value"); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%+v: %v, want %q", p, err, text)
		}
	}
}

func TestAMappingThatFailsSaysWhy(t *testing.T) {
	t.Parallel()
	for text, p := range map[string]trusted.Program{
		"the value[1].a is NaN":  {JS: "return [1, {a: NaN}]"},
		"the value.f is a func":  {JS: "return {f() {}}"},
		"TypeError":              {JS: "return value.a.b"},
		"it is not the body":     {JS: "}); ({a: 1"},
		"require is not defined": {JS: "return require('fs')"},
		"1000 deep":              {JS: "const f = () => f(); return f()"},
	} {
		c, err := trusted.Compile(p, "value")
		if err == nil {
			_, err = c.Run(t.Context(), json.RawMessage(`{}`))
		}
		if err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%+v: %v, want %q", p, err, text)
		}
	}
}

func TestAMappingThatDoesNotEndIsStopped(t *testing.T) {
	t.Parallel()
	c, err := trusted.Compile(trusted.Program{JS: "for (;;) {}"})
	if err != nil {
		t.Fatal(err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for name, ctx := range map[string]context.Context{"at its own limit": t.Context(), "with its caller": ended} {
		if _, err := c.Run(ctx); err == nil || !strings.Contains(err.Error(), "it was stopped") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
