package program

import (
	"math"
	"slices"
	"strings"
)

// script is a program as a list of tokens. Its methods take time in proportion to its length,
// because it is untrusted.
type script struct {
	source string
	tokens []token
	// rebound are the names that the program binds.
	rebound map[string]bool
	// bindCount is how often it binds each.
	bindCount map[string]int
	// global are the bound names that may be global variables.
	global map[string]bool
	// pair maps the index of a bracket to that of its counterpart.
	pair []int
}

func newScript(source string) *script {
	s := &script{source: source, tokens: scan(source), rebound: map[string]bool{}, bindCount: map[string]int{}, global: map[string]bool{}}
	s.matchBrackets()
	s.collectBindings()
	return s
}

// matchBrackets fills in pair. A bracket that is never closed has the last token as counterpart.
func (s *script) matchBrackets() {
	s.pair = make([]int, len(s.tokens))
	var open []int
	for i, t := range s.tokens {
		s.pair[i] = len(s.tokens) - 1
		if t.kind != operator {
			continue
		}
		switch t.text {
		case "(", "[", "{":
			open = append(open, i)
		case ")", "]", "}":
			if n := len(open); n > 0 {
				s.pair[i], s.pair[open[n-1]] = open[n-1], i
				open = open[:n-1]
			}
		}
	}
}

func (s *script) mentions(name string) bool {
	return slices.ContainsFunc(s.tokens, func(t token) bool { return t.kind == word && t.text == name })
}

// at returns the token at an index. If there is none, its kind is end.
func (s *script) at(i int) token {
	if i < 0 || i >= len(s.tokens) {
		return token{kind: end}
	}
	return s.tokens[i]
}

// isBareName reports whether the token is a name by itself, and not a member of an object or the
// name of an argument.
func (s *script) isBareName(i int) bool {
	return s.at(i).kind == word && !s.at(i-1).is(".") && !(s.at(i).depth > 0 && s.at(i+1).is("="))
}

// binder is a clause that binds the names in it, up to the token end.
type binder struct {
	end        string
	depth      int // of end; -1 is any
	localDepth int // names at this depth of brackets or deeper are local to a function or comprehension
}

// anyDepth is a localDepth beyond all names: all names of a clause may be global.
const anyDepth = math.MaxInt

// collectBindings records the names that the program binds. If in doubt, it records a name:
// calls through bound names are not checked.
func (s *script) collectBindings() {
	var binders []binder
	line := 0 // the index after the last newline or assignment
	for i, t := range s.tokens {
		if n := len(binders); n > 0 && t.is(binders[n-1].end) && (binders[n-1].depth < 0 || binders[n-1].depth == t.depth) {
			binders = binders[:n-1]
		}
		switch {
		case t.kind == newline:
			binders, line = nil, i+1
		case t.kind == operator && t.text == ":=":
			s.bindGlobal(s.at(i - 1).text)
		case t.kind == operator && t.depth == 0 && isAssignment(t.text):
			for ; line < i; line++ {
				if after := s.at(line + 1); s.tokens[line].kind == word && !s.at(line-1).is(".") && !after.is("(") && !after.is("[") && !after.is(".") {
					s.bindGlobal(s.tokens[line].text)
				}
			}
		case t.is("for"):
			local := anyDepth
			if t.depth > 0 {
				local = 0
			}
			binders = append(binders, binder{"in", -1, local})
		case t.is("lambda"):
			binders = append(binders, binder{":", t.depth, 0})
		case t.is("def"):
			binders = append(binders, binder{":", t.depth, t.depth + 1})
		case t.is("import"), t.is("global"), t.is("nonlocal"):
			binders = append(binders, binder{localDepth: anyDepth})
		case t.is("as"), t.is("class"):
			s.bindGlobal(s.at(i + 1).text)
		case t.kind == word && len(binders) > 0 && !s.at(i-1).is(".") && !s.at(i+1).is("."):
			s.rebound[t.text] = true
			s.bindCount[t.text]++
			if t.depth < binders[len(binders)-1].localDepth {
				s.global[t.text] = true
			}
		}
	}
}

// bindGlobal records the binding of a name that may be global.
func (s *script) bindGlobal(name string) {
	s.rebound[name], s.global[name] = true, true
	s.bindCount[name]++
}

func isAssignment(op string) bool {
	return strings.HasSuffix(op, "=") && op != "==" && op != "!=" && op != "<=" && op != ">="
}

// readPath returns the names of a path such as a.b["c"] that begins at token i, and the index of
// the token after it.
func (s *script) readPath(i int) (parts []string, after int) {
	parts = append(parts, s.at(i).text)
	i++
	for {
		switch {
		case s.at(i).is(".") && s.at(i+1).kind == word:
			parts = append(parts, s.at(i+1).text)
			i += 2
		case s.at(i).is("[") && s.at(i+1).kind == text && s.at(i+2).is("]") && plainText(s.at(i+1).text) != "":
			parts = append(parts, plainText(s.at(i+1).text))
			i += 3
		default:
			return parts, i
		}
	}
}

// plainText returns the text of a simple string literal: one without prefix, escapes and line
// ends. For others it returns "".
func plainText(literal string) string {
	if len(literal) < 2 || literal[0] != '"' && literal[0] != '\'' || strings.ContainsAny(literal[1:len(literal)-1], "\\\"'\n") {
		return ""
	}
	return literal[1 : len(literal)-1]
}
