package program

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/toolroom/toolroom/bridge"
	"github.com/toolroom/toolroom/internal/pattern"
)

// What Monty's type checker finds is judged here: it follows names through a
// program, which the check of the text does not, and also complains of much that
// runs well. Of that only what is wrong with a call of a tool counts, and only
// where no other value can be meant: a name that is bound once, a literal.

// names in the stubs. A program that writes them is not checked.
const (
	stubPrefix = "toolroom_stub_"
	stubAnswer = stubPrefix + "answer"
	// unchecked is a name that nothing defines: its line is always complained of,
	// so that a program which is only to be checked is never run.
	unchecked = stubPrefix + "never"
)

// maxChecked is how large a program that is type-checked may be, in bytes.
const maxChecked = 64 << 10

// maxComplaints is how many complaints are judged.
const maxComplaints = 200

// Types is a program as the type checker gets it.
type Types struct{ Source, Stubs string }

// Types gives what to check, ok false where there is nothing to find.
func (r *Ready) Types() (t Types, ok bool) {
	if len(r.Source) > maxChecked || strings.Contains(r.Source, stubPrefix) {
		return t, false
	}
	t.Stubs = r.stubs()
	return Types{Source: unchecked + "\n" + r.Source, Stubs: t.Stubs}, t.Stubs != ""
}

var stubNames = pattern.Lazy(`^[A-Za-z_][A-Za-z0-9_]*$`)

// reserved are the keywords of Python, which cannot be declared.
var reserved = set(` False None True and as assert async await break class continue def del elif else except finally for from global if import in is
lambda nonlocal not or pass raise return try while with yield self`)

func declarable(name string) bool { return stubNames().MatchString(name) && !reserved[name] }

// stubs declares the tools that the program names; it is empty if there are none.
func (r *Ready) stubs() string {
	answer := "Any"
	if r.Awaits {
		answer = stubAnswer
	}
	spaces := map[string][]string{} // path of a namespace → declarations
	for _, t := range r.known.ids {
		last := t.Path[len(t.Path)-1]
		if !declarable(last) || !strings.Contains(r.Source, last) {
			continue
		}
		method := fmt.Sprintf("    def %s(self%s) -> %s: ...\n", last, signature(t), answer)
		for _, path := range append([][]string{append([]string{"tools"}, t.Path...)}, t.Globals...) {
			if above := path[:len(path)-1]; !slices.ContainsFunc(above, func(part string) bool { return !declarable(part) || !strings.Contains(r.Source, part) }) {
				key := strings.Join(above, ".")
				spaces[key] = append(spaces[key], method)
			}
		}
	}
	if len(spaces) == 0 {
		return ""
	}
	members := map[string][]string{} // path of a namespace → namespaces in it
	for path := range spaces {
		for {
			above, name := cutLast(path)
			if slices.Contains(members[above], name) {
				break
			}
			members[above] = append(members[above], name)
			if path = above; path == "" {
				break
			}
		}
	}
	var b strings.Builder
	b.WriteString("from typing import Any, Generator\nclass " + stubAnswer + ":\n    def __await__(self) -> Generator[Any, Any, Any]: ...\n")
	declare(&b, "", spaces, members)
	return b.String()
}

func cutLast(path string) (above, name string) {
	i := strings.LastIndexByte(path, '.')
	return path[:max(i, 0)], path[i+1:]
}

// declare writes the classes of the namespaces below a path, and its variables.
func declare(b *strings.Builder, path string, spaces, members map[string][]string) {
	slices.Sort(members[path])
	for _, name := range members[path] {
		declare(b, strings.TrimPrefix(path+"."+name, "."), spaces, members)
	}
	indent := ""
	if path != "" {
		fmt.Fprintf(b, "class %s:\n", stubClass(path))
		indent = "    "
	}
	for _, name := range members[path] {
		fmt.Fprintf(b, "%s%s: %s\n", indent, name, stubClass(strings.TrimPrefix(path+"."+name, ".")))
	}
	slices.Sort(spaces[path])
	b.WriteString(strings.Join(spaces[path], ""))
}

func stubClass(path string) string { return stubPrefix + strings.ReplaceAll(path, ".", "__") }

var stubTypes = map[string]string{
	"string": "str", "integer": "int", "number": "float", "boolean": "bool", "null": "None", "array": "list", "object": "dict",
}

// signature is the parameters of a tool behind self.
func signature(t *bridge.Tool) string {
	var b strings.Builder
	if t.Kind == "cli" {
		b.WriteString(", *_: Any")
	}
	for _, p := range t.Parameters {
		if p.Name == "_" {
			continue
		}
		if !declarable(p.Name) {
			return ", *_: Any, **more: Any"
		}
		kind := stubTypes[p.Type]
		if kind == "" {
			kind = "Any"
		}
		fmt.Fprintf(&b, ", %s: %s", p.Name, kind)
		if !p.Required {
			b.WriteString(" = ...")
		}
	}
	if t.Open {
		b.WriteString(", **toolroom_more: Any")
	}
	return b.String()
}

// complaint is one of the type checker, as it writes them in lines of JSON.
type complaint struct {
	Code     string
	Message  string
	Location struct{ Row, Column int }
}

// Complaints judges what the type checker wrote of a program, and gives why it is
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
	ofMethod = pattern.Lazy("bound method `" + stubPrefix + "([^`]*)`")
	mismatch = pattern.Lazy("Expected `([^`]*)`, found `([^`]*)`$")
)

// judge gives what is wrong where the token at i begins, nil if the complaint does
// not count.
func (s *script) judge(known *tools, c complaint, i int) *problem {
	m := ofMethod().FindStringSubmatch(c.Message)
	if m == nil {
		return s.judgeAnswer(known, c, i)
	}
	tool := known.paths[strings.ReplaceAll(strings.ReplaceAll(m[1], "__", "."), stubPrefix, "")]
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
		if types[2] == stubAnswer {
			return s.forgotten(known, value)
		}
		alone := value == open+1 && s.at(value).is("{") // all arguments as one dict
		if !alone && (literal(s.at(value)) || strings.HasPrefix(types[2], "Literal[")) && disjoint(types[1], types[2]) {
			return &problem{s.tokens[i].start, fmt.Sprintf("%s takes %s here, and gets %s. The call is %s", tool.ID, types[1], types[2], Shape(tool))}
		}
	}
	return nil
}

// judgeAnswer refuses the use, as of a value, of an answer that was not awaited.
func (s *script) judgeAnswer(known *tools, c complaint, i int) *problem {
	if !strings.Contains(c.Message, "bject of type `"+stubAnswer+"`") {
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

// certain tells whether the path at an index means the tool that it seems to: it
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

// spread tells whether a call has arguments that only show when it runs.
func (s *script) spread(c call) bool {
	return slices.ContainsFunc(s.tokens[c.open:c.last], func(t token) bool {
		return t.depth == s.tokens[c.open].depth+1 && (t.is("*") || t.is("**"))
	})
}

func literal(t token) bool {
	return t.kind == text || t.kind == number || t.kind == template || t.is("[") || t.is("{") || t.is("True") || t.is("False")
}

// disjoint tells whether no value of the type found can be one of the type
// expected, as the type checker writes them. Of types that it does not know it
// says no.
func disjoint(expected, found string) bool {
	want := kindOf(expected)
	for one := range strings.SplitSeq(found, " | ") {
		list := []string{one}
		if inner, ok := strings.CutPrefix(one, "Literal["); ok {
			list = strings.Split(strings.TrimSuffix(inner, "]"), ", ")
		}
		for _, item := range list {
			kind := kindOf(item)
			if want == "" || kind == "" || kind == want || numeric(kind) && numeric(want) {
				return false
			}
		}
	}
	return true
}

func numeric(kind string) bool { return kind == "int" || kind == "float" }

func kindOf(name string) string {
	name, _, _ = strings.Cut(name, "[")
	switch name = strings.TrimSuffix(name, "*"); {
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
