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

// What Monty's type checker finds is judged here: it follows names through a
// program, which the check of the text does not, and also complains of much that
// runs well. Of that only what is wrong with a call of a tool counts, and only
// where no other value can be meant: a name that is bound once, a literal.

// unchecked is a name that nothing defines: its line is always complained of, so
// that a program which is only to be checked is never run.
const unchecked = "toolroom_stub_never"

// answer is how the type checker names the type of an answer that is not awaited
// yet, up to that of its value.
const answer = stub.PythonAnswer + "["

// maxChecked is how large a program that is type-checked may be, in bytes. A dense
// one of this size takes the checker 3 s, one of a megabyte 11: longer than a
// check may.
const maxChecked = 256 << 10

// maxComplaints is how many complaints are judged.
const maxComplaints = 200

// Types is a program as the type checker gets it.
type Types struct{ Source, Stubs string }

// Types returns the text to check with the declarations of the tools that declare
// writes down, ok false where there is nothing to find. What programs before
// this one have bound may be anything.
func (r *Ready) Types(declare func(awaits bool) string) (t Types, ok bool) {
	if !r.namesTools() || len(r.Source) > maxChecked || strings.Contains(r.Source, unchecked) {
		return t, false
	}
	var b strings.Builder
	b.WriteString(declare(r.Awaits))
	for _, name := range r.earlier {
		if !r.known.roots[name] {
			b.WriteString(name + ": Any\n")
		}
	}
	return Types{Source: unchecked + "\n" + r.Source, Stubs: b.String()}, true
}

// namesTools reports whether the program names a tool below a namespace.
func (r *Ready) namesTools() bool {
	for _, t := range r.known.ids {
		if strings.Contains(r.Source, t.Path[len(t.Path)-1]) {
			return true
		}
	}
	return false
}

// complaint is one of the type checker, as it writes them in lines of JSON.
type complaint struct {
	Code     string
	Message  string
	Location struct{ Row, Column int }
}

// Complaints evaluates the output of the type checker, and returns why the program is
// refused, nil if nothing in there counts.
func (r *Ready) Complaints(lines string) *bridge.Failure {
	read := 0
	for line := range strings.Lines(lines) {
		var c complaint
		if read++; read > maxComplaints {
			break // each is looked for in the whole program
		}
		if json.Unmarshal([]byte(line), &c) != nil || c.Location.Row < 2 {
			continue
		}
		row := c.Location.Row - 1
		if i, ok := r.script.tokenAt(row, r.Column(row, c.Location.Column)); ok {
			if p := r.script.judge(r.known, c, i); p != nil {
				return r.failure(bridge.FailCheck, p)
			}
		}
	}
	return nil
}

// tokenAt is the index of the token at a line and column, both from 1.
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
	ofMethod = pattern.Lazy("bound method `([^`]*)`")
	mismatch = pattern.Lazy("Expected `([^`]*)`, found `([^`]*)`$")
)

// judge returns the mistake at the token at i, nil if the complaint does
// not count.
func (s *script) judge(known *tools, c complaint, i int) *problem {
	m := ofMethod().FindStringSubmatch(c.Message)
	if m == nil {
		return s.judgeAnswer(known, c, i)
	}
	tool := known.paths["tools."+stub.PythonPath(m[1])]
	begin := i
	if c.Code != "missing-argument" {
		begin = s.callee(i)
	}
	if tool == nil || begin < 0 || !s.certain(known, begin) {
		return nil
	}
	path, open := s.path(begin)
	if !s.at(open).is("(") {
		return nil
	}
	one := call{path: path, tool: tool, at: s.tokens[begin].start, from: begin, open: open, last: s.pair[open]}
	switch c.Code {
	case "unknown-argument", "missing-argument":
		if message := s.arguments(one); message != "" {
			return &problem{one.at, message}
		}
	case "too-many-positional-arguments", "parameter-already-assigned":
		if !s.spread(one) {
			return &problem{one.at, tool.ID + " has fewer arguments without a name, or has one of these twice. The call is " + Shape(tool)}
		}
	case "invalid-argument-type":
		types := mismatch().FindStringSubmatch(c.Message)
		if types == nil || s.spread(one) {
			return nil
		}
		value := i
		if s.at(i + 1).is("=") {
			value += 2
		}
		if strings.HasPrefix(types[2], answer) {
			return s.forgotten(known, value)
		}
		alone := value == open+1 && s.at(value).is("{") // all arguments as one dict
		if !alone && (literal(s.at(value)) || strings.HasPrefix(types[2], "Literal[")) && disjoint(types[1], types[2]) {
			return &problem{s.tokens[i].start, fmt.Sprintf("%s takes %s here, and gets %s. The call is %s", tool.ID, readable(types[1]), types[2], Shape(tool))}
		}
	}
	return nil
}

// judgeAnswer refuses the use, as of a value, of an answer that was not awaited.
func (s *script) judgeAnswer(known *tools, c complaint, i int) *problem {
	if !strings.Contains(c.Message, "bject of type `"+answer) {
		return nil
	}
	switch c.Code {
	case "not-subscriptable", "unresolved-attribute", "not-iterable", "call-non-callable":
		return s.forgotten(known, i)
	}
	return nil
}

// forgotten refuses the name at an index where it holds the answer of a call and
// nothing else.
func (s *script) forgotten(known *tools, i int) *problem {
	bound := s.binding(s.at(i).text)
	if bound < 0 || s.at(i).kind != word || !s.certain(known, bound+2) || s.mentions("isinstance") {
		return nil
	}
	tool := s.toolAt(known, bound+2)
	_, open := s.path(bound + 2)
	if tool == nil || !s.at(open).is("(") || s.at(s.pair[open]+1).kind != newline {
		return nil
	}
	return &problem{s.at(i).start, forgotten(tool)}
}

// callee is the index at which the call begins that the token at i is an argument
// of, -1 if it is of none.
func (s *script) callee(i int) int {
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

// certain reports whether the path at an index means the tool that it seems to: it
// begins with a name of ours, or with one that is bound once, to a tool.
func (s *script) certain(known *tools, i int) bool {
	name := s.tokens[i].text
	if known.roots[name] {
		return !s.rebound[name]
	}
	bound := s.binding(name)
	return bound >= 0 && known.roots[s.at(bound+2).text] && !s.rebound[s.at(bound+2).text]
}

// toolAt is the tool of the path at an index, which may be another name for it.
func (s *script) toolAt(known *tools, i int) *bridge.Tool {
	path, _ := s.path(i)
	if bound := s.binding(path[0]); bound >= 0 && len(path) == 1 {
		path, _ = s.path(bound + 2)
	}
	return known.paths[strings.Join(path, ".")]
}

// binding is the index of a name where it is bound, as the first of a line that
// assigns to it; -1 if that is not so, or it is bound anywhere else.
func (s *script) binding(name string) int {
	if s.bound[name] != 1 {
		return -1
	}
	for i, t := range s.tokens {
		if t.first && t.text == name && s.at(i+1).is("=") {
			return i
		}
	}
	return -1
}

// spread reports whether a call has arguments that only show when it runs.
func (s *script) spread(c call) bool {
	return slices.ContainsFunc(s.tokens[c.open:c.last], func(t token) bool {
		return t.depth == s.tokens[c.open].depth+1 && (t.is("*") || t.is("**"))
	})
}

func literal(t token) bool {
	return t.kind == text || t.kind == number || t.kind == template || t.is("[") || t.is("{") || t.is("True") || t.is("False")
}

// disjoint reports whether no value of the type found can be one of the type
// expected, as the type checker writes them. Of types that it does not know it
// says no.
func disjoint(expected, found string) bool {
	var wanted []string
	for one := range strings.SplitSeq(expected, " | ") {
		wanted = append(wanted, kindOf(one))
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
			kind := kindOf(item)
			if kind == "" || slices.Contains(wanted, kind) || numeric(kind) && slices.ContainsFunc(wanted, numeric) {
				return false
			}
		}
	}
	return true
}

// readable is a type as its author may know it: the names of ours are dicts.
func readable(expected string) string {
	parts := strings.Split(expected, " | ")
	for i, one := range parts {
		if strings.HasPrefix(one, "_") {
			parts[i] = "dict"
		}
	}
	return strings.Join(parts, " | ")
}

func numeric(kind string) bool { return kind == "int" || kind == "float" }

func kindOf(name string) string {
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
	case name != "" && (digit(name[0]) || name[0] == '-'):
		return "int"
	}
	return ""
}
