package program

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// edit replaces a part of the source by text. Neither contains line ends.
type edit struct {
	start, end int
	text       string
}

// rewrite returns the edits for features that have another form in Monty:
//
//	tools["a"]["b"]    tools.a.b, because our objects have no items in Monty
//	r["exit_code"]     r.exit_code, for the result of a command
//	ToolError          an exception class that Monty has
//	e.code             a call that asks for the details of a caught error
func (s *script) rewrite(known *toolIndex, spelled map[string]string) []edit {
	var edits []edit
	var open []exceptClause // the clauses around the token, inner ones last
	caught := map[string]int{}
	next, begins := exceptClause{}, -1 // a clause, and where its header ends
	commands := s.mentions("cli")
	for i, t := range s.tokens {
		for n := len(open); t.first && n > 0 && open[n-1].indent >= t.indent; n-- {
			caught[open[n-1].name]--
			open = open[:n-1]
		}
		if i == begins {
			open = append(open, next)
			caught[next.name]++
		}
		switch {
		case t.kind == word && caught[t.text] > 0 && s.isBareName(i) && s.at(i+1).is(".") && slices.Contains(errorAttributes, s.at(i+2).text):
			edits = append(edits, edit{t.start, t.end, ErrorDetails + "(" + t.text + ")"})
		case t.kind == word && t.text == "ToolError" && s.isBareName(i) && !s.rebound[t.text]:
			edits = append(edits, edit{t.start, t.end, ToolErrorClass})
		case t.kind == word && s.isBareName(i) && known.roots[t.text] && !s.rebound[t.text]:
			edits = append(edits, s.rewriteSubscripts(i, spelled)...)
		case t.first && t.is("except"):
			if name, colon := s.exceptName(i); name != "" {
				next, begins = exceptClause{name, t.indent}, colon
			}
		case commands && t.is("[") && s.at(i+2).is("]") && s.at(i+1).kind == text && (s.at(i-1).is(")") && !s.opensCallByID(s.pair[i-1]) || s.at(i-1).kind == word):
			if key := plainText(s.at(i + 1).text); slices.Contains([]string{"stdout", "stderr", "exit_code", "ok"}, key) {
				edits = append(edits, memberEdit(t.start, s.at(i+2).end, key))
			}
		}
	}
	slices.SortFunc(edits, func(a, b edit) int { return a.start - b.start })
	return slices.CompactFunc(edits, func(a, b edit) bool { return a.start == b.start }) // cli["ok"] is a member in two ways
}

// memberEdit returns the edit that replaces ["name"] by .name and spaces, so that columns stay
// the same.
func memberEdit(start, stop int, name string) edit {
	return edit{start, stop, "." + name + strings.Repeat(" ", max(stop-start-len(name)-1, 0))}
}

// opensCallByID reports whether the bracket at an index opens a call by id. Its result is always
// a dict, also for a command.
func (s *script) opensCallByID(open int) bool {
	return s.at(open-1).is("call_tool") || s.at(open-1).is("run")
}

// rewriteSubscripts returns the edits that replace the first two subscripts after the root at i
// by members. It records the replaced names in spelled.
func (s *script) rewriteSubscripts(i int, spelled map[string]string) []edit {
	var edits []edit
	i++
	for range 2 {
		switch {
		case s.at(i).is(".") && s.at(i+1).kind == word:
			i += 2
		case s.at(i).is("[") && s.at(i+1).kind == text && s.at(i+2).is("]") && plainText(s.at(i+1).text) != "":
			name := plainText(s.at(i + 1).text)
			id := Identifier(name)
			spelled[id] = name
			edits = append(edits, memberEdit(s.at(i).start, s.at(i+2).end, id))
			i += 3
		default:
			return edits
		}
	}
	return edits
}

// Identifier returns an identifier for a name. It is no longer than the name, in bytes, unless
// the name is empty or begins with a digit.
func Identifier(name string) string {
	id := strings.Map(func(r rune) rune {
		if r == '_' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' {
			return r
		}
		return '_'
	}, name)
	if id == "" || id[0] >= '0' && id[0] <= '9' {
		id = "_" + id
	}
	return id
}

var errorAttributes = []string{"code", "phase", "tool", "retryable", "hint", "details", "message"}

// exceptClause is an except clause that gives the caught error a name.
type exceptClause struct {
	name   string
	indent int
}

// exceptName returns the name of the error that the except clause at i catches, and the index
// at which its header ends. The name is empty if there is none.
func (s *script) exceptName(i int) (name string, colon int) {
	j := i + 1
	for ; !s.at(j).is(":") && s.at(j).kind != newline && s.at(j).kind != end; j++ {
	}
	if !s.at(j - 2).is("as") {
		return "", 0
	}
	return s.at(j - 1).text, j
}

func applyEdits(source string, edits []edit) string {
	if len(edits) == 0 {
		return source
	}
	var b strings.Builder
	done := 0
	for _, e := range edits {
		b.WriteString(source[done:e.start])
		b.WriteString(e.text)
		done = e.end
	}
	b.WriteString(source[done:])
	return b.String()
}

// position returns the line and column, in characters, of a byte offset.
func position(source string, at int) (line, column int) {
	before := source[:min(at, len(source))]
	start := strings.LastIndexByte(before, '\n') + 1
	return strings.Count(before, "\n") + 1, utf8.RuneCountInString(before[start:]) + 1
}

// AuthorColumn maps a column of the rewritten text to the author's text.
func (r *Prepared) AuthorColumn(line, column int) int {
	if line < 1 || line > len(r.lines) || len(r.edits) == 0 {
		return column
	}
	start := 0
	for _, l := range r.lines[:line-1] {
		start += len(l) + 1
	}
	text := r.lines[line-1]
	moved := 0 // by how much what follows the edits so far has moved right
	for _, e := range r.edits {
		if e.start < start || e.start > start+len(text) {
			continue
		}
		from := utf8.RuneCountInString(text[:e.start-start]) + 1 + moved
		if column <= from {
			break
		}
		old := utf8.RuneCountInString(text[e.start-start : e.end-start])
		grown := utf8.RuneCountInString(e.text)
		if column < from+grown {
			return from - moved
		}
		moved += grown - old
	}
	return column - moved
}

// AuthorLine returns a line of the author's text, or "" if there is none.
func (r *Prepared) AuthorLine(n int) string {
	if n < 1 || n > len(r.lines) {
		return ""
	}
	return r.lines[n-1]
}
