package program

import (
	"fmt"
	"slices"
	"strings"

	"github.com/toolroom/toolroom/bridge"
	"github.com/toolroom/toolroom/internal/nearest"
)

// tools are the tools that a program was told of, by the paths that name them.
type tools struct {
	paths map[string]*bridge.Tool // joined by dots
	roots map[string]bool         // first names of paths
	below map[string][]string     // path → the names below it

	ids     map[string]*bridge.Tool
	unknown bridge.Map // as in bridge.Program
}

func newTools(list []bridge.Tool, unknown bridge.Map) *tools {
	known := &tools{ids: map[string]*bridge.Tool{}, unknown: unknown, paths: map[string]*bridge.Tool{}, roots: map[string]bool{"tools": true, "mcp": true, "cli": true}, below: map[string][]string{}}
	for i := range list {
		t := &list[i]
		known.ids[t.ID] = t
		for _, path := range append([][]string{append([]string{"tools"}, t.Path...)}, t.Globals...) {
			known.roots[path[0]] = true
			known.paths[strings.Join(path, ".")] = t
			above := strings.Join(path[:len(path)-1], ".")
			known.below[above] = append(known.below[above], path[len(path)-1])
		}
	}
	return known
}

// Shape is a call of a tool as its author should write it.
func Shape(t *bridge.Tool) string {
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

func forgotten(t *bridge.Tool) string {
	call, _, _ := strings.Cut(Shape(t), "  #")
	return "the answer of a tool is used without await: write `await " + call + "`"
}

// call is where a program calls what a path names.
type call struct {
	path       []string
	tool       *bridge.Tool // nil for a path that names none
	at         int          // byte
	from       int          // index of the path's first token
	open, last int          // indexes of its brackets
	awaited    bool
	id         string // for call_tool and run: what they are given, where the text shows it
}

// calls finds the calls of paths that begin with the name of a namespace.
func (s *script) calls(known *tools) []call {
	var list []call
	for i := range s.tokens {
		name := s.tokens[i].text
		byID := name == "call_tool" || name == "run"
		if !s.free(i) || !byID && !known.roots[name] || s.rebound[name] {
			continue
		}
		path, after := s.path(i)
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
			c.id = plain(s.at(after + 1).text)
			if c.tool = known.ids[c.id]; c.tool == nil && known.unknown.Text(c.id) == "" {
				continue
			}
		}
		list = append(list, c)
	}
	return list
}

// check refuses unknown tools, wrong arguments and forgotten awaits.
func (s *script) check(known *tools, calls []call, awaits bool) *problem {
	for _, c := range calls {
		message := known.unknown.Text(strings.Join(c.path[:min(2, len(c.path))], "."))
		if c.id != "" {
			message = known.unknown.Text(c.id)
		}
		if message != "" {
			return &problem{c.at, message}
		}
		if c.tool == nil {
			message = unknown(known, c.path)
		} else if message = s.arguments(c); message == "" && awaits && !c.awaited && s.used(c) {
			message = forgotten(c.tool)
		}
		if message != "" {
			return &problem{c.at, message}
		}
	}
	if awaits {
		return s.promised(calls)
	}
	return nil
}

// promised refuses the use of a name, as of a value, that holds the answer of a
// call which was not awaited.
func (s *script) promised(calls []call) *problem {
	bound := map[string]call{}
	uses := map[string][]int{} // of names that are bound once so
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
		if at, ok := uses[t.text]; ok && s.free(i) {
			uses[t.text] = append(at, i)
		}
	}
	var first *problem
	for text, where := range uses {
		c := bound[text]
		if at, ok := s.misused(c.from-2, where); ok && (first == nil || at < first.at) {
			first = &problem{at, forgotten(c.tool)}
		}
	}
	return first
}

// misused is where a name that is bound at a token, and stands at others, is used as a
// value. It finds nothing where the name may be bound anew.
func (s *script) misused(bound int, where []int) (at int, ok bool) {
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

// unknown is the message for a path that names no tool beside some that do; a
// namespace of which nothing is known is for the host to judge.
func unknown(known *tools, path []string) string {
	above := strings.Join(path[:len(path)-1], ".")
	siblings := known.below[above]
	length := 2
	if path[0] == "tools" || path[0] == "mcp" {
		length = 3
	}
	if len(siblings) == 0 || len(path) != length {
		return ""
	}
	message := "there is no tool " + strings.Join(path, ".")
	if near, ok := nearest.Of(path[len(path)-1], siblings); ok {
		return message + "; did you mean " + Shape(known.paths[above+"."+near]) + "?"
	}
	siblings = slices.Sorted(slices.Values(siblings))
	return message + "; " + above + " has " + strings.Join(siblings[:min(20, len(siblings))], ", ")
}

// arguments compares the arguments of a call with the tool's parameters.
func (s *script) arguments(c call) string {
	var names []string
	positional := false
	begin := true // of an argument
	from := c.open + 1
	if c.id != "" {
		from++ // behind the id
		begin = false
	}
	for i := from; i < c.last; i++ {
		t := s.tokens[i]
		switch {
		case begin && c.id != "" && t.is("{"):
			keys, ok := s.keys(i)
			if !ok {
				return ""
			}
			names = append(names, keys...)
		case begin && (t.is("*") || t.is("**")):
			return "" // what is in there is known only when it runs
		case begin && t.kind == word && s.at(i+1).is("="):
			names = append(names, t.text)
			if value := s.at(i + 2); value.kind == text && (s.at(i+3).is(",") || i+3 == c.last) && plain(value.text) != "" {
				if wrong := c.tool.Misfit(t.text, plain(value.text)); wrong != "" {
					return wrong
				}
			}
		case begin:
			positional = true
		}
		begin = t.is(",")
		if s.pair[i] > i && strings.ContainsAny(t.text, "([{") && t.kind == operator {
			i = s.pair[i] // what is in brackets is of others
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
		return message + " The call is " + Shape(c.tool)
	}
	if positional || c.id != "" { // what is missing of a call by id is for the tool to judge
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
	return fmt.Sprintf("%s needs %s. The call is %s", c.tool.ID, strings.Join(missing, ", "), Shape(c.tool))
}

// keys are those of the dict that begins at i, ok false where the text does not
// show them all.
func (s *script) keys(i int) (names []string, ok bool) {
	last := s.pair[i]
	for i++; i < last; i++ {
		if s.at(i).kind == newline {
			continue
		}
		name := plain(s.at(i).text)
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

// used reports whether the answer of a call is used at once, or dropped, in a way
// that means a value and not a future.
func (s *script) used(c call) bool {
	before, after := s.at(c.from-1), s.at(c.last+1)
	switch {
	case s.tokens[c.from].first && after.kind == newline, after.is("["), after.is("."), before.kind == field && after.kind == field:
		return true
	case before.is("in") && before.depth == 0:
		return true
	}
	return arithmetic(before) || arithmetic(after)
}

func arithmetic(t token) bool {
	return t.kind == operator && slices.Contains([]string{"+", "-", "*", "/", "//", "%", "@", "**", "<<", ">>", "&", "|", "^"}, t.text)
}
