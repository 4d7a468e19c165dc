// Package trusted is the engine go-trusted: it runs what an operator wrote into
// the config, in this process and without a sandbox. What agents write never
// gets here: it is no engine of code mode, and nothing but the config makes a
// [Program].
package trusted

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/big"
	"time"

	"github.com/dop251/goja"
	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/types"
	"github.com/expr-lang/expr/vm"

	"github.com/toolroom/toolroom/internal/jsonx"
)

// Program is the text of a mapping, in one of two languages.
type Program struct {
	// Expr is an expression of expr-lang.org. It has no loops but those over
	// lists, and always ends.
	Expr string `yaml:"expr,omitempty" json:"expr,omitempty"`
	// JS is the body of a JavaScript function: it gives its value with return.
	// It has the builtins of the language, and no files, network or modules.
	JS string `yaml:"js,omitempty" json:"js,omitempty"`
}

// IsZero reports whether there is no program.
func (p Program) IsZero() bool { return p == Program{} }

// Compiled is a program that is ready to run, any number of times at once.
type Compiled struct {
	names []string
	expr  *vm.Program
	js    *goja.Program
}

// The most that one run may take: time, and calls within calls.
const (
	Wall  = time.Second
	depth = 1000
)

// Compile reads a program, which sees the variables of these names. The error
// of one that cannot be read says where.
func Compile(p Program, names ...string) (*Compiled, error) {
	c := &Compiled{names: names}
	switch {
	case p.Expr != "" && p.JS != "":
		return nil, errors.New("expr and js are both there; write one of them")
	case p.Expr != "":
		seen := make(types.Map, len(names))
		for _, name := range names {
			seen[name] = types.Any
		}
		program, err := expr.Compile(p.Expr, expr.Env(seen))
		c.expr = program
		return c, err
	case p.JS != "":
		text := "(function("
		for i, name := range names {
			if i > 0 {
				text += ", "
			}
			text += name
		}
		program, err := goja.Compile("js", text+") {"+p.JS+"\n})", true)
		c.js = program
		return c, err
	}
	return nil, errors.New("write expr or js")
}

// Run gives the value for JSON values of the variables, in the order of their
// names. It ends with ctx, and after [Wall] at the latest.
func (c *Compiled) Run(ctx context.Context, values ...json.RawMessage) (json.RawMessage, error) {
	ctx, cancel := context.WithTimeout(ctx, Wall)
	defer cancel()
	trees := make([]any, len(values))
	for i, value := range values {
		if len(value) == 0 {
			continue
		}
		tree, err := jsonx.Decode(value, jsonx.Limits{Bytes: len(value)})
		if err != nil {
			return nil, err
		}
		trees[i] = jsonx.Native(tree)
	}
	result, err := c.run(ctx, trees)
	if err != nil {
		return nil, err
	}
	if result, err = leaving(result, "the value"); err != nil {
		return nil, err
	}
	return jsonx.Marshal(result)
}

func (c *Compiled) run(ctx context.Context, trees []any) (any, error) {
	if c.expr != nil {
		env := make(map[string]any, len(c.names))
		for i, name := range c.names {
			env[name] = trees[i]
		}
		return expr.Run(c.expr, env)
	}
	engine := goja.New()
	engine.SetMaxCallStackSize(depth)
	stop := context.AfterFunc(ctx, func() { engine.Interrupt(context.Cause(ctx)) })
	defer stop()
	function, err := engine.RunProgram(c.js)
	if err != nil {
		return nil, ended(err)
	}
	call, ok := goja.AssertFunction(function)
	if !ok { // the text closed the function that it is the body of
		return nil, errors.New("it is not the body of a function")
	}
	arguments := make([]goja.Value, len(trees))
	for i, tree := range trees {
		arguments[i] = entering(engine, tree)
	}
	value, err := call(goja.Undefined(), arguments...)
	if err != nil {
		return nil, ended(err)
	}
	return value.Export(), nil
}

func ended(err error) error {
	if interrupted := (*goja.InterruptedError)(nil); errors.As(err, &interrupted) {
		return fmt.Errorf("it was stopped: %w", err)
	}
	if deep := (*goja.StackOverflowError)(nil); errors.As(err, &deep) {
		return fmt.Errorf("it calls itself more than %d deep%s", depth, deep)
	}
	return err
}

// entering makes JavaScript's own values, so that a program that changes them
// changes nothing of ours.
func entering(engine *goja.Runtime, v any) goja.Value {
	switch v := v.(type) {
	case []any:
		list := make([]any, len(v))
		for i, child := range v {
			list[i] = entering(engine, child)
		}
		return engine.NewArray(list...)
	case map[string]any:
		object := engine.NewObject()
		for key, child := range v {
			// A key such as __proto__ is data.
			_ = object.DefineDataProperty(key, entering(engine, child), goja.FLAG_TRUE, goja.FLAG_TRUE, goja.FLAG_TRUE)
		}
		return object
	case json.Number: // a whole one that is too large for a number
		if whole, ok := new(big.Int).SetString(v.String(), 10); ok {
			return engine.ToValue(whole)
		}
		return engine.ToValue(v.String())
	case nil:
		return goja.Null()
	}
	return engine.ToValue(v)
}

// leaving refuses what JSON cannot say, and names the part.
func leaving(v any, at string) (any, error) {
	var err error
	switch v := v.(type) {
	case nil, bool, string, int, int64, json.Number:
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return nil, fmt.Errorf("%s is %v, which is no number that JSON has", at, v)
		}
	case *big.Int:
		return json.Number(v.String()), nil
	case []any:
		for i := range v {
			if v[i], err = leaving(v[i], fmt.Sprintf("%s[%d]", at, i)); err != nil {
				return nil, err
			}
		}
	case map[string]any:
		for key := range v {
			if v[key], err = leaving(v[key], at+"."+key); err != nil {
				return nil, err
			}
		}
	default:
		return nil, fmt.Errorf("%s is a %T, which JSON has not", at, v)
	}
	return v, nil
}
