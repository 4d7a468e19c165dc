package program

import (
	"math"
	"slices"
	"strings"
)

// script is a program as its tokens. What is found out about it takes time in
// proportion to its length, since it is a stranger's.
type script struct {
	source string
	tokens []token
	// rebound are the names that the program redefines.
	rebound map[string]bool
	// bound is how often it does so.
	bound map[string]int
	// global are those of them that may be variables of the whole program.
	global map[string]bool
	// pair is the index of the bracket that belongs to the one at an index.
	pair []int
}

func newScript(source string) *script {
	s := &script{source: source, tokens: scan(source), rebound: map[string]bool{}, bound: map[string]int{}, global: map[string]bool{}}
	s.match()
	s.store()
	return s
}

// match pairs the brackets; one that is never closed ends with the program.
func (s *script) match() {
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

// at is the token at an index, whatever the index.
func (s *script) at(i int) token {
	if i < 0 || i >= len(s.tokens) {
		return token{kind: end}
	}
	return s.tokens[i]
}

// free reports whether the token is a name by itself, and not a member of another
// or the name of an argument.
func (s *script) free(i int) bool {
	return s.at(i).kind == word && !s.at(i-1).is(".") && !(s.at(i).depth > 0 && s.at(i+1).is("="))
}

// binder is a clause that binds the names in it, up to its end.
type binder struct {
	end   string
	depth int // of its end; -1 is any
	local int // names this deep in brackets are of a function or comprehension
}

// outer is deeper than any name: all names of a clause may be global.
const outer = math.MaxInt

// store notes the names that the program binds. It rather notes one too many:
// what is bound is not checked.
func (s *script) store() {
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
			s.bind(s.at(i - 1).text)
		case t.kind == operator && t.depth == 0 && assigns(t.text):
			for ; line < i; line++ {
				if after := s.at(line + 1); s.tokens[line].kind == word && !s.at(line-1).is(".") && !after.is("(") && !after.is("[") && !after.is(".") {
					s.bind(s.tokens[line].text)
				}
			}
		case t.is("for"):
			local := outer
			if t.depth > 0 {
				local = 0
			}
			binders = append(binders, binder{"in", -1, local})
		case t.is("lambda"):
			binders = append(binders, binder{":", t.depth, 0})
		case t.is("def"):
			binders = append(binders, binder{":", t.depth, t.depth + 1})
		case t.is("import"), t.is("global"), t.is("nonlocal"):
			binders = append(binders, binder{local: outer})
		case t.is("as"), t.is("class"):
			s.bind(s.at(i + 1).text)
		case t.kind == word && len(binders) > 0 && !s.at(i-1).is(".") && !s.at(i+1).is("."):
			s.rebound[t.text] = true
			s.bound[t.text]++
			if t.depth < binders[len(binders)-1].local {
				s.global[t.text] = true
			}
		}
	}
}

// bind notes a name that may be global.
func (s *script) bind(name string) {
	s.rebound[name], s.global[name] = true, true
	s.bound[name]++
}

func assigns(op string) bool {
	return strings.HasSuffix(op, "=") && op != "==" && op != "!=" && op != "<=" && op != ">="
}

// path is the names of a.b["c"], from the token at i on, and the index after.
func (s *script) path(i int) (parts []string, after int) {
	parts = append(parts, s.at(i).text)
	i++
	for {
		switch {
		case s.at(i).is(".") && s.at(i+1).kind == word:
			parts = append(parts, s.at(i+1).text)
			i += 2
		case s.at(i).is("[") && s.at(i+1).kind == text && s.at(i+2).is("]") && plain(s.at(i+1).text) != "":
			parts = append(parts, plain(s.at(i+1).text))
			i += 3
		default:
			return parts, i
		}
	}
}

// plain is what a string literal holds, where that is plain to see.
func plain(literal string) string {
	if len(literal) < 2 || literal[0] != '"' && literal[0] != '\'' || strings.ContainsAny(literal[1:len(literal)-1], "\\\"'\n") {
		return ""
	}
	return literal[1 : len(literal)-1]
}
