package program

import (
	"fmt"
	"slices"
	"strings"

	"github.com/toolroom/toolroom/bridge"
	"github.com/toolroom/toolroom/internal/nearest"
)

// toolIndex holds the tools of a program by the paths that name them.
type toolIndex struct {
	paths    map[string]*bridge.Tool // by path, joined by dots
	roots    map[string]bool         // first names of paths
	children map[string][]string     // path → the names in it

	ids     map[string]*bridge.Tool
	unknown bridge.Map // as in bridge.Program
}

func newTools(list []bridge.Tool, unknown bridge.Map) *toolIndex {
	known := &toolIndex{ids: map[string]*bridge.Tool{}, unknown: unknown, paths: map[string]*bridge.Tool{}, roots: map[string]bool{"tools": true, "mcp": true, "cli": true}, children: map[string][]string{}}
	for i := range list {
		t := &list[i]
		known.ids[t.ID] = t
		for _, path := range append([][]string{append([]string{"tools"}, t.Path...)}, t.Globals...) {
			known.roots[path[0]] = true
			known.paths[strings.Join(path, ".")] = t
			above := strings.Join(path[:len(path)-1], ".")
			known.children[above] = append(known.children[above], path[len(path)-1])
		}
	}
	return known
}

// CallSyntax returns a call of a tool as an author should write it.
func CallSyntax(t *bridge.Tool) string {
	var required, optional []string
	for _, p := range t.Parameters {
		switch {
		case p.Required:
			required = append(required, p.Name+"=...")
		case p.Name != "_" && len(optional) < 8:
			optional = append(optional, p.Name)
		}
	}
	text := "tools." + strings.Join(t.Path, ".") + "(" + strings.Join(required, ", ") + ")"
	if len(optional) > 0 {
		text += "  # optional: " + strings.Join(optional, ", ")
	}
	return text
}

func missingAwaitMessage(t *bridge.Tool) string {
	call, _, _ := strings.Cut(CallSyntax(t), "  #")
	return "the answer of a tool is used without await: write `await " + call + "`"
}

// call is a call of a path in a program.
type call struct {
	path       []string
	tool       *bridge.Tool // nil if the path names none
	at         int          // byte offset
	from       int          // index of the path's first token
	open, last int          // indexes of its brackets
	awaited    bool
	id         string // the id passed to call_tool or run, if it is a literal
}

// findCalls returns the calls of paths that begin with the name of a namespace, and the calls
// by id.
func (s *script) findCalls(known *toolIndex) []call {
	var list []call
	for i := range s.tokens {
		name := s.tokens[i].text
		byID := name == "call_tool" || name == "run"
		if !s.isBareName(i) || !byID && !known.roots[name] || s.rebound[name] {
			continue
		}
		path, after := s.readPath(i)
		if !s.at(after).is("(") {
			continue
		}
		c := call{
			path: path, tool: known.paths[strings.Join(path, ".")], at: s.tokens[i].start,
			from: i, open: after, last: s.pair[after], awaited: s.at(i - 1).is("await"),
		}
		if byID {
			if len(path) > 1 || s.at(after+1).kind != text || !s.at(after+2).is(",") && !s.at(after+2).is(")") {
				continue
			}
			c.id = plainText(s.at(after + 1).text)
			if c.tool = known.ids[c.id]; c.tool == nil && known.unknown.Text(c.id) == "" {
				continue
			}
		}
		list = append(list, c)
	}
	return list
}

// checkCalls returns the first call of an unknown tool, with wrong arguments, or without a
// required await.
func (s *script) checkCalls(known *toolIndex, calls []call, awaits bool) *problem {
	for _, c := range calls {
		message := known.unknown.Text(strings.Join(c.path[:min(2, len(c.path))], "."))
		if c.id != "" {
			message = known.unknown.Text(c.id)
		}
		if message != "" {
			return &problem{c.at, message}
		}
		if c.tool == nil {
			message = unknownToolMessage(known, c.path)
		} else if message = s.checkArguments(c); message == "" && awaits && !c.awaited && s.isUsedAsValue(c) {
			message = missingAwaitMessage(c.tool)
		}
		if message != "" {
			return &problem{c.at, message}
		}
	}
	if awaits {
		return s.checkFutureVariables(calls)
	}
	return nil
}

// checkFutureVariables returns the first place where a variable is used as a value although it
// holds the future of a call that was not awaited.
func (s *script) checkFutureVariables(calls []call) *problem {
	bound := map[string]call{}
	uses := map[string][]int{} // of names that are assigned once in this way
	for _, c := range calls {
		name := c.from - 2
		if c.tool == nil || c.awaited || !s.at(name).first || !s.at(c.from-1).is("=") || s.at(c.last+1).kind != newline {
			continue
		}
		text := s.at(name).text
		if _, twice := bound[text]; twice {
			delete(uses, text)
			continue
		}
		bound[text], uses[text] = c, []int{}
	}
	if len(uses) == 0 {
		return nil
	}
	for i, t := range s.tokens {
		if at, ok := uses[t.text]; ok && s.isBareName(i) {
			uses[t.text] = append(at, i)
		}
	}
	var first *problem
	for text, where := range uses {
		c := bound[text]
		if at, ok := s.findValueUse(c.from-2, where); ok && (first == nil || at < first.at) {
			first = &problem{at, missingAwaitMessage(c.tool)}
		}
	}
	return first
}

// findValueUse returns the offset where a name is first used as a value. The name is bound at
// the token with index bound and occurs at those in where. If it may be bound again, findValueUse
// finds nothing.
func (s *script) findValueUse(bound int, where []int) (at int, ok bool) {
	for _, i := range where {
		if i == bound {
			continue
		}
		t := s.tokens[i]
		member := s.at(i + 2).text
		switch after := s.at(i + 1); {
		case after.is("["), after.is(".") && member != "text" && member != "lines" && member != "json":
			if !ok {
				at, ok = t.start, true
			}
		case s.at(i - 1).is("await"):
		default:
			return 0, false
		}
	}
	return at, ok
}

// unknownToolMessage returns the message for a path that names no tool in a namespace with known
// tools. For other namespaces it returns "": the call handler reports an unknown tool.
func unknownToolMessage(known *toolIndex, path []string) string {
	above := strings.Join(path[:len(path)-1], ".")
	siblings := known.children[above]
	length := 2
	if path[0] == "tools" || path[0] == "mcp" {
		length = 3
	}
	if len(siblings) == 0 || len(path) != length {
		return ""
	}
	message := "there is no tool " + strings.Join(path, ".")
	if near, ok := nearest.Of(path[len(path)-1], siblings); ok {
		return message + "; did you mean " + CallSyntax(known.paths[above+"."+near]) + "?"
	}
	siblings = slices.Sorted(slices.Values(siblings))
	return message + "; " + above + " has " + strings.Join(siblings[:min(20, len(siblings))], ", ")
}

// checkArguments compares the arguments of a call with the tool's parameters. It returns what is
// wrong, or "".
func (s *script) checkArguments(c call) string {
	var names []string
	positional := false
	begin := true // of an argument
	from := c.open + 1
	if c.id != "" {
		from++ // after the id
		begin = false
	}
	for i := from; i < c.last; i++ {
		t := s.tokens[i]
		switch {
		case begin && c.id != "" && t.is("{"):
			keys, ok := s.dictKeys(i)
			if !ok {
				return ""
			}
			names = append(names, keys...)
		case begin && (t.is("*") || t.is("**")):
			return "" // its content is known only when the program runs
		case begin && t.kind == word && s.at(i+1).is("="):
			names = append(names, t.text)
			if value := s.at(i + 2); value.kind == text && (s.at(i+3).is(",") || i+3 == c.last) && plainText(value.text) != "" {
				if wrong := c.tool.ArgumentProblem(t.text, plainText(value.text)); wrong != "" {
					return wrong
				}
			}
		case begin:
			positional = true
		}
		begin = t.is(",")
		if s.pair[i] > i && strings.ContainsAny(t.text, "([{") && t.kind == operator {
			i = s.pair[i] // the text in brackets is part of one argument
		}
	}
	known := make([]string, 0, len(c.tool.Parameters))
	for _, p := range c.tool.Parameters {
		known = append(known, p.Name)
	}
	for _, name := range names {
		if c.tool.Open || slices.Contains(known, name) {
			continue
		}
		message := c.tool.ID + " has no argument " + name
		if near, ok := nearest.Of(name, known); ok {
			message += "; did you mean " + near + "?"
		}
		return message + " The call is " + CallSyntax(c.tool)
	}
	if positional || c.id != "" { // the tool itself reports what a call by id lacks
		return ""
	}
	var missing []string
	for _, p := range c.tool.Parameters {
		if p.Required && !slices.Contains(names, p.Name) {
			missing = append(missing, p.Name)
		}
	}
	if len(missing) == 0 {
		return ""
	}
	return fmt.Sprintf("%s needs %s. The call is %s", c.tool.ID, strings.Join(missing, ", "), CallSyntax(c.tool))
}

// dictKeys returns the keys of the dict that begins at i. ok is false if not all of them are
// literals.
func (s *script) dictKeys(i int) (names []string, ok bool) {
	last := s.pair[i]
	for i++; i < last; i++ {
		if s.at(i).kind == newline {
			continue
		}
		name := plainText(s.at(i).text)
		if s.at(i).kind != text || name == "" || !s.at(i+1).is(":") {
			return nil, false
		}
		names = append(names, name)
		for ; i < last && !s.at(i).is(","); i++ {
			if s.pair[i] > i && strings.ContainsAny(s.at(i).text, "([{") && s.at(i).kind == operator {
				i = s.pair[i]
			}
		}
	}
	return names, true
}

// isUsedAsValue reports whether the result of a call is used at once, or dropped, in a way that
// makes sense for a value only and not for a future.
func (s *script) isUsedAsValue(c call) bool {
	before, after := s.at(c.from-1), s.at(c.last+1)
	switch {
	case s.tokens[c.from].first && after.kind == newline, after.is("["), after.is("."), before.kind == field && after.kind == field:
		return true
	case before.is("in") && before.depth == 0:
		return true
	}
	return isArithmetic(before) || isArithmetic(after)
}

func isArithmetic(t token) bool {
	return t.kind == operator && slices.Contains([]string{"+", "-", "*", "/", "//", "%", "@", "**", "<<", ">>", "&", "|", "^"}, t.text)
}
