// Package expression evaluates Expr (expr-lang.org) in this process, within
// limits. Expr bounds the number of list items that an expression makes, but
// not its strings, its comparisons or its time. Here every operator and builtin
// whose cost depends on its operands is charged to a [Meter] before it runs.
package expression

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"

	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/conf"
	"github.com/expr-lang/expr/parser"
	"github.com/expr-lang/expr/types"
	"github.com/expr-lang/expr/vm"
)

// MaxText bounds an expression, in bytes. It also bounds the recursion of the
// parser, which has no limit of its own.
const MaxText = 4 << 10

// maxNodes bounds the nodes of an expression after Expr has expanded it:
// comparisons such as (1 < (1 < x < 2) < 2) double with each level.
const maxNodes = 10_000

// Program is a compiled expression. It may be used concurrently.
type Program struct{ program *vm.Program }

// Kind is what an expression must evaluate to.
type Kind int

// The kinds.
const (
	Any Kind = iota
	Bool
)

// Compile compiles an expression that sees the variables of these names.
func Compile(text string, kind Kind, names ...string) (*Program, error) {
	if len(text) > MaxText {
		return nil, fmt.Errorf("it has %d bytes; an expression has at most %d", len(text), MaxText)
	}
	if err := checkSize(text); err != nil {
		return nil, err
	}
	env := types.Map{}
	for _, name := range names {
		env[name] = types.Any
	}
	options := []expr.Option{expr.Env(env)}
	if kind == Bool {
		options = append(options, expr.AsBool())
	}
	// The first compilation finds mistakes in types: in the second, the metered
	// functions hide the types of their operands.
	if _, err := expr.Compile(text, options...); err != nil {
		return nil, err
	}
	env[meterName] = types.Any
	m := &meterVisitor{}
	program, err := expr.Compile(text, append(append(options, expr.Patch(m)), functions()...)...)
	if err := errors.Join(m.err, err); err != nil {
		return nil, err
	}
	return &Program{program}, nil
}

// checkSize refuses an expression that expands to too many nodes. The parser
// shares nodes, so it is fast where everything after it is not.
func checkSize(text string) (err error) {
	tree, err := parser.ParseWithConfig(text, conf.CreateNew())
	if err != nil {
		return err
	}
	defer func() {
		if r := recover(); r != nil {
			if r != errNodes { //nolint:errorlint // the very value that counter panics with
				panic(r)
			}
			err = errNodes
		}
	}()
	ast.Walk(&tree.Node, new(counter))
	return nil
}

var errNodes = fmt.Errorf("it expands to more than %d operations", maxNodes)

// counter panics with errNodes, which is the only way out of a walk.
type counter int

func (c *counter) Visit(*ast.Node) {
	if *c++; *c > maxNodes {
		panic(errNodes)
	}
}

// maxMessage bounds the error of an evaluation, in bytes: Expr quotes values.
const maxMessage = 2 << 10

// goNames replaces Go's names in the errors of Expr by those that a writer of an expression
// knows.
var goNames = strings.NewReplacer(
	"cannot fetch ", "cannot read ",
	"<nil>", "nil",
	"map[string]interface {}", "object",
	"[]interface {}", "list",
	"float64", "number",
)

// Run evaluates the program for the values of its variables. It stops when the
// meter is used up or ctx ends. The value nests at most [MaxDepth] deep, and
// making JSON of it is paid for.
func (p *Program) Run(ctx context.Context, m *Meter, variables map[string]any) (any, error) {
	env := make(map[string]any, len(variables)+1)
	maps.Copy(env, variables)
	env[meterName] = &run{ctx: ctx, meter: m}
	v, err := expr.Run(p.program, env)
	if err == nil {
		err = (&run{ctx: ctx, meter: m}).chargeSize(sizeSum{}, v)
	}
	for _, limit := range []error{ErrWork, ErrDepth, context.Canceled, context.DeadlineExceeded} {
		if errors.Is(err, limit) {
			return nil, limit
		}
	}
	if err != nil {
		text := goNames.Replace(err.Error())
		if len(text) > maxMessage {
			text = fmt.Sprintf("%.*s…", maxMessage, text)
		}
		return nil, errors.New(text)
	}
	return v, nil
}
