package effects

import (
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// noteEvaluation adds an unknown command if node evaluates text as shell code although it does
// not look like code: in subscripts, arithmetic, and the expansion @P.
func (r *shellReader) noteEvaluation(node syntax.Node) {
	switch n := node.(type) {
	case *syntax.SglQuoted:
		if hidesSubstitution(n.Value) {
			r.addAnyCommand()
		}
	case *syntax.Lit:
		if hidesSubstitution(n.Value) {
			r.addAnyCommand()
		}
	case *syntax.ParamExp:
		if n.Exp != nil && n.Exp.Op == syntax.OtherParamOps {
			r.addAnyCommand()
		}
		if n.Excl {
			r.addAnyCommand()
		}
		r.noteSubscript(n.Index)
		if n.Slice != nil {
			r.noteArithmetic(n.Slice.Offset)
			r.noteArithmetic(n.Slice.Length)
		}
	case *syntax.Assign:
		r.noteSubscript(n.Index)
	case *syntax.ArrayElem:
		r.noteSubscript(n.Index)
	case *syntax.UnaryTest:
		if n.Op == syntax.TsVarSet || n.Op == syntax.TsRefVar {
			if w, ok := n.X.(*syntax.Word); !ok || !isName(r.expandUnsplit(w)) {
				r.addAnyCommand()
			}
		}
	case *syntax.ArithmExp:
		r.noteArithmetic(n.X)
	case *syntax.ArithmCmd:
		r.noteArithmetic(n.X)
	case *syntax.LetClause:
		for _, x := range n.Exprs {
			r.noteArithmetic(x)
		}
	case *syntax.BinaryTest:
		switch n.Op {
		case syntax.OrTest:
			if x, ok := n.Y.(*syntax.UnaryTest); !ok || x.Op == syntax.TsNot {
				r.addAnyCommand() // dash reads [[ as a program, and || as its own operator
			}
		case syntax.TsEql, syntax.TsNeq, syntax.TsLeq, syntax.TsGeq, syntax.TsLss, syntax.TsGtr:
			for _, x := range []syntax.TestExpr{n.X, n.Y} {
				if w, ok := x.(*syntax.Word); ok && !isNumber(r.expandUnsplit(w)) {
					r.addAnyCommand()
				}
			}
		}
	}
}

// hidesSubstitution reports whether text would run a command if it was used as a subscript.
func hidesSubstitution(text string) bool {
	_, rest, ok := strings.Cut(text, "[")
	return ok && (strings.Contains(rest, "$(") || strings.Contains(rest, "`") || strings.Contains(rest, "$")) || strings.Contains(text, "[$(") || strings.Contains(text, "[`")
}

// isName reports whether a word is the name of a variable, without a subscript.
func isName(f field) bool { return f.known && isAssignment(f.text+"=") }

// noteSubscript adds the effects of evaluating a subscript.
func (r *shellReader) noteSubscript(x syntax.ArithmExpr) {
	if w, ok := x.(*syntax.Word); ok && (w.Lit() == "@" || w.Lit() == "*") {
		return
	}
	r.noteArithmetic(x)
}

func isNumber(f field) bool {
	return f.known && f.text != "" && strings.Trim(f.text, "0123456789-") == ""
}

// noteArithmetic adds the effects of an arithmetic expression, which evaluates the values of
// its variables as code unless they are numbers.
func (r *shellReader) noteArithmetic(x syntax.ArithmExpr) {
	if x == nil {
		return
	}
	syntax.Walk(x, func(node syntax.Node) bool {
		w, ok := node.(*syntax.Word)
		if !ok {
			return true
		}
		f := r.expandUnsplit(w)
		if f.known && !isNumber(f) { // a name
			f = field{text: r.vars[f.text], known: true}
		}
		if !isNumber(f) {
			r.addAnyCommand()
		}
		return false
	})
}
