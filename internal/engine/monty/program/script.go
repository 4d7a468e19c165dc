package program

import (
	"slices"
	"strings"
)

// script is a program as its tokens.
type script struct {
	source string
	tokens []token
	// rebound are the names that the program gives a meaning of its own.
	rebound map[string]bool
}

func newScript(source string) *script {
	s := &script{source: source, tokens: scan(source), rebound: map[string]bool{}}
	for i := range s.tokens {
		s.store(i)
	}
	return s
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

// free tells whether the token is a name by itself, and not a member of another
// or the name of an argument.
func (s *script) free(i int) bool {
	return s.at(i).kind == word && !s.at(i-1).is(".") && !(s.at(i).depth > 0 && s.at(i+1).is("="))
}

// store notes the names that the statement or clause at i binds. It rather
// notes one too many: what is bound is not checked.
func (s *script) store(i int) {
	t := s.tokens[i]
	switch {
	case t.kind == operator && t.text == ":=", t.kind == operator && t.depth == 0 && strings.HasSuffix(t.text, "=") && !slices.Contains([]string{"==", "!=", "<=", ">="}, t.text):
		for j := i - 1; j >= 0 && s.tokens[j].kind != newline; j-- {
			if s.tokens[j].kind == word && !s.at(j-1).is(".") && !s.at(j+1).is("(") && !s.at(j+1).is("[") && !s.at(j+1).is(".") {
				s.rebound[s.tokens[j].text] = true
			}
			if t.text == ":=" {
				break
			}
		}
	case t.is("for"), t.is("lambda"), t.is("def"), t.is("import"), t.is("global"), t.is("nonlocal"):
		stop := map[string]string{"for": "in", "lambda": ":", "def": ":"}[t.text]
		for j := i + 1; j < len(s.tokens) && s.tokens[j].kind != newline; j++ {
			if s.tokens[j].is(stop) && (s.tokens[j].depth == t.depth || stop == "in") {
				break
			}
			if s.tokens[j].kind == word && !s.at(j-1).is(".") && !s.at(j+1).is(".") {
				s.rebound[s.tokens[j].text] = true
			}
		}
	case t.is("as"), t.is("class"):
		s.rebound[s.at(i+1).text] = true
	}
}

// match is the index of the bracket that closes the one at open.
func (s *script) match(open int) int {
	for i := open + 1; i < len(s.tokens); i++ {
		if t := s.tokens[i]; t.kind == operator && t.depth == s.tokens[open].depth && strings.Contains(")]}", t.text) {
			return i
		}
	}
	return len(s.tokens) - 1
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
