package program

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/toolroom/toolroom/bridge"
	"github.com/toolroom/toolroom/internal/code/stub"
	"github.com/toolroom/toolroom/internal/pattern"
)

// This file evaluates the diagnostics of Monty's type checker. The checker follows names
// through a program, which checkCalls does not, but it also rejects much that runs well. So a
// diagnostic counts only if it is about a tool call, and only if the value is certain: a literal,
// or a name that is bound once.

// undefinedName is a name that nothing defines. A program with it never passes the check, so a
// program that is only to be checked is never run.
const undefinedName = "toolroom_stub_never"

// futureType is the beginning of the type checker's name for the future of a call. The type of
// the value follows.
const futureType = stub.PythonAnswer + "["

// maxCheckedSource is the size of the largest program that is type-checked, in bytes. A dense
// program of this size takes the checker 3 s, and one of a megabyte 11 s, which is longer than a
// check may take.
const maxCheckedSource = 256 << 10

// maxDiagnostics is how many diagnostics of a program are evaluated.
const maxDiagnostics = 200

// CheckInput is the input of the type checker for a program.
type CheckInput struct{ Source, Stubs string }

// CheckInput returns the input of the type checker, with the declarations of tools that declare
// returns. Names that earlier programs of the session have bound get the type Any. ok is false if
// a check would find nothing.
func (r *Prepared) CheckInput(declare func(awaits bool) string) (t CheckInput, ok bool) {
	if !r.namesTools() || len(r.Source) > maxCheckedSource || strings.Contains(r.Source, undefinedName) {
		return t, false
	}
	var b strings.Builder
	b.WriteString(declare(r.Awaits))
	for _, name := range r.sessionNames {
		if !r.known.roots[name] {
			b.WriteString(name + ": Any\n")
		}
	}
	return CheckInput{Source: undefinedName + "\n" + r.Source, Stubs: b.String()}, true
}

// namesTools reports whether the program mentions the name of a tool.
func (r *Prepared) namesTools() bool {
	for _, t := range r.known.ids {
		if strings.Contains(r.Source, t.Path[len(t.Path)-1]) {
			return true
		}
	}
	return false
}

// diagnostic is a line of the type checker's output, in JSON.
type diagnostic struct {
	Code     string
	Message  string
	Location struct{ Row, Column int }
}

// EvaluateCheck evaluates the output of the type checker. It returns why the program is refused,
// or nil if no diagnostic counts.
func (r *Prepared) EvaluateCheck(lines string) *bridge.Failure {
	read := 0
	for line := range strings.Lines(lines) {
		var c diagnostic
		if read++; read > maxDiagnostics {
			break // finding the token of each takes time in proportion to the program
		}
		if json.Unmarshal([]byte(line), &c) != nil || c.Location.Row < 2 {
			continue
		}
		row := c.Location.Row - 1
		if i, ok := r.script.tokenAt(row, r.AuthorColumn(row, c.Location.Column)); ok {
			if p := r.script.mistakeAt(r.known, c, i); p != nil {
				return r.failure(bridge.FailCheck, p)
			}
		}
	}
	return nil
}

// tokenAt returns the index of the token at a line and column, which count from 1.
func (s *script) tokenAt(line, column int) (int, bool) {
	at := 0
	for ; line > 1; line-- {
		i := strings.IndexByte(s.source[at:], '\n')
		if i < 0 {
			return 0, false
		}
		at += i + 1
	}
	for ; column > 1 && at < len(s.source); column-- {
		_, size := utf8.DecodeRuneInString(s.source[at:])
		at += size
	}
	return slices.BinarySearchFunc(s.tokens, at, func(t token, at int) int { return t.start - at })
}

var (
	boundMethod  = pattern.Lazy("bound method `([^`]*)`")
	typeMismatch = pattern.Lazy("Expected `([^`]*)`, found `([^`]*)`$")
)

// mistakeAt returns the mistake that a diagnostic reports at the token at i, or nil if the
// diagnostic does not count.
func (s *script) mistakeAt(known *toolIndex, c diagnostic, i int) *problem {
	m := boundMethod().FindStringSubmatch(c.Message)
	if m == nil {
		return s.futureUsedAsValue(known, c, i)
	}
	tool := known.paths["tools."+stub.PythonPath(m[1])]
	begin := i
	if c.Code != "missing-argument" {
		begin = s.callStart(i)
	}
	if tool == nil || begin < 0 || !s.isToolPath(known, begin) {
		return nil
	}
	path, open := s.readPath(begin)
	if !s.at(open).is("(") {
		return nil
	}
	one := call{path: path, tool: tool, at: s.tokens[begin].start, from: begin, open: open, last: s.pair[open]}
	switch c.Code {
	case "unknown-argument", "missing-argument":
		if message := s.checkArguments(one); message != "" {
			return &problem{one.at, message}
		}
	case "too-many-positional-arguments", "parameter-already-assigned":
		if !s.hasUnpacking(one) {
			return &problem{one.at, tool.ID + " has fewer arguments without a name, or has one of these twice. The call is " + CallSyntax(tool)}
		}
	case "invalid-argument-type":
		types := typeMismatch().FindStringSubmatch(c.Message)
		if types == nil || s.hasUnpacking(one) {
			return nil
		}
		value := i
		if s.at(i + 1).is("=") {
			value += 2
		}
		if strings.HasPrefix(types[2], futureType) {
			return s.unawaitedVariable(known, value)
		}
		alone := value == open+1 && s.at(value).is("{") // all arguments as one dict
		if !alone && (isLiteral(s.at(value)) || strings.HasPrefix(types[2], "Literal[")) && areDisjoint(types[1], types[2]) {
			return &problem{s.tokens[i].start, fmt.Sprintf("%s takes %s here, and gets %s. The call is %s", tool.ID, readableType(types[1]), types[2], CallSyntax(tool))}
		}
	}
	return nil
}

// futureUsedAsValue returns the mistake if a diagnostic says that a future is used as a value.
func (s *script) futureUsedAsValue(known *toolIndex, c diagnostic, i int) *problem {
	if !strings.Contains(c.Message, "bject of type `"+futureType) {
		return nil
	}
	switch c.Code {
	case "not-subscriptable", "unresolved-attribute", "not-iterable", "call-non-callable":
		return s.unawaitedVariable(known, i)
	}
	return nil
}

// unawaitedVariable returns the mistake at i if the token there is a variable that can only hold
// the future of a tool call.
func (s *script) unawaitedVariable(known *toolIndex, i int) *problem {
	bound := s.onlyBinding(s.at(i).text)
	if bound < 0 || s.at(i).kind != word || !s.isToolPath(known, bound+2) || s.mentions("isinstance") {
		return nil
	}
	tool := s.toolAt(known, bound+2)
	_, open := s.readPath(bound + 2)
	if tool == nil || !s.at(open).is("(") || s.at(s.pair[open]+1).kind != newline {
		return nil
	}
	return &problem{s.at(i).start, missingAwaitMessage(tool)}
}

// callStart returns the index at which a call begins if the token at i is one of its arguments,
// else -1.
func (s *script) callStart(i int) int {
	open := i - 1
	for ; open >= 0 && (s.pair[open] < i || s.tokens[open].depth >= s.tokens[i].depth || !s.tokens[open].is("(")); open-- {
		if s.tokens[open].kind == newline {
			return -1
		}
	}
	begin := open - 1
	for {
		if s.at(begin).is("]") && s.at(begin-1).kind == text {
			begin = s.pair[begin] - 1
		} else if s.at(begin - 1).is(".") {
			begin -= 2
		} else {
			break
		}
	}
	if s.at(begin).kind != word {
		return -1
	}
	return begin
}

// isToolPath reports whether the path at an index certainly denotes a tool: it begins with a root
// of tools that the program does not bind, or with a name that is bound once, to such a path.
func (s *script) isToolPath(known *toolIndex, i int) bool {
	name := s.tokens[i].text
	if known.roots[name] {
		return !s.rebound[name]
	}
	bound := s.onlyBinding(name)
	return bound >= 0 && known.roots[s.at(bound+2).text] && !s.rebound[s.at(bound+2).text]
}

// toolAt returns the tool of the path at an index. The path may be a variable that holds the
// tool.
func (s *script) toolAt(known *toolIndex, i int) *bridge.Tool {
	path, _ := s.readPath(i)
	if bound := s.onlyBinding(path[0]); bound >= 0 && len(path) == 1 {
		path, _ = s.readPath(bound + 2)
	}
	return known.paths[strings.Join(path, ".")]
}

// onlyBinding returns the index of a name in its only binding, which is an assignment at the
// beginning of a line. It returns -1 if the name is bound in another way or more than once.
func (s *script) onlyBinding(name string) int {
	if s.bindCount[name] != 1 {
		return -1
	}
	for i, t := range s.tokens {
		if t.first && t.text == name && s.at(i+1).is("=") {
			return i
		}
	}
	return -1
}

// hasUnpacking reports whether a call unpacks arguments with * or **.
func (s *script) hasUnpacking(c call) bool {
	return slices.ContainsFunc(s.tokens[c.open:c.last], func(t token) bool {
		return t.depth == s.tokens[c.open].depth+1 && (t.is("*") || t.is("**"))
	})
}

func isLiteral(t token) bool {
	return t.kind == text || t.kind == number || t.kind == template || t.is("[") || t.is("{") || t.is("True") || t.is("False")
}

// areDisjoint reports whether no value of the type found can have the type expected. Both are
// written as the type checker does. For types that it does not know it returns false.
func areDisjoint(expected, found string) bool {
	var wanted []string
	for one := range strings.SplitSeq(expected, " | ") {
		wanted = append(wanted, typeKind(one))
	}
	if slices.Contains(wanted, "") {
		return false
	}
	for one := range strings.SplitSeq(found, " | ") {
		list := []string{one}
		if inner, ok := strings.CutPrefix(one, "Literal["); ok {
			list = strings.Split(strings.TrimSuffix(inner, "]"), ", ")
		}
		for _, item := range list {
			kind := typeKind(item)
			if kind == "" || slices.Contains(wanted, kind) || isNumeric(kind) && slices.ContainsFunc(wanted, isNumeric) {
				return false
			}
		}
	}
	return true
}

// readableType returns a type as an author knows it: our own named types become dict.
func readableType(expected string) string {
	parts := strings.Split(expected, " | ")
	for i, one := range parts {
		if strings.HasPrefix(one, "_") {
			parts[i] = "dict"
		}
	}
	return strings.Join(parts, " | ")
}

func isNumeric(kind string) bool { return kind == "int" || kind == "float" }

func typeKind(name string) string {
	name, _, _ = strings.Cut(name, "[")
	switch name = strings.TrimSuffix(name, "*"); {
	case name == "None":
		return name
	case strings.HasPrefix(name, "_"): // a TypedDict, which has a name of ours
		return "dict"
	case name == "tuple" || name == "set" || name == "frozenset":
		return "list"
	case slices.Contains([]string{"str", "int", "float", "bool", "list", "dict"}, name):
		return name
	case strings.HasPrefix(name, `"`) || strings.HasPrefix(name, `b"`):
		return "str"
	case name == "True" || name == "False":
		return "bool"
	case name != "" && (isDigit(name[0]) || name[0] == '-'):
		return "int"
	}
	return ""
}
