package js

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/evanw/esbuild/pkg/api"

	"github.com/toolroom/toolroom/bridge"
)

// Program is a program that is ready to run.
type Program struct {
	// Source is an expression: an asynchronous function without parameters; in a
	// session, a list of the names that it declares, and that function.
	Source string

	author string
	name   string
	// layers map from Source back to the author's text, the last applied first.
	layers []layer
}

// layer maps positions in the text after a change to the text before it. Lines and
// columns count from 1; if ok is false, the position has no counterpart in the text
// before.
type layer func(line, column int) (int, int, bool)

// The function around the author's text. It adds no line.
const (
	opening = "(async()=>{"
	closing = "\n})"
)

// Prepare prepares a program in language javascript or typescript. If the program
// cannot run, Prepare returns a failure of kind syntax or check; nothing of it has
// run.
func Prepare(p bridge.Program) (*Program, *bridge.Failure) {
	ready := &Program{author: p.Source, name: p.Name}
	if p.Bundled {
		ready.Source = opening + p.Source + closing
		ready.layers = []layer{func(line, column int) (int, int, bool) {
			if line == 1 {
				column -= len(opening)
			}
			return line, column, true
		}}
		return ready, nil
	}
	if u := measure(p.Source); u != nil {
		f := &bridge.Failure{Kind: bridge.FailSyntax, Type: "SyntaxError", Message: "the program is not parsed: " + u.reason, File: p.Name}
		f.Line, f.Column = position(p.Source, u.at)
		return nil, f
	}
	ready.change([]edit{{0, 0, opening}, {len(p.Source), 0, closing}}, p.Source)
	if edits := assignments(ready.Source); len(edits) > 0 {
		ready.change(edits, ready.Source)
	}
	syntax, err := parse(ready.Source)
	if p.Language == "typescript" || err != nil {
		if failure := ready.strip(api.ESNext); failure != nil {
			return nil, failure
		}
		syntax, err = parse(ready.Source)
	}
	if err != nil && p.Session != "" {
		if failure := ready.strip(api.ES2020); failure != nil {
			return nil, failure
		}
		if syntax, err = parse(ready.Source); err != nil {
			return nil, ready.apart()
		}
	}
	if err != nil {
		// The engine gets syntax that the parser does not know, unchecked.
		return ready, nil
	}
	if failure := ready.check(syntax, p); failure != nil {
		return nil, failure
	}
	if p.Session != "" {
		ready.persist(syntax)
	} else if edits := syntax.lastValue(); len(edits) > 0 {
		ready.change(edits, ready.Source)
	}
	return ready, nil
}

// edit replaces remove bytes at an offset.
type edit struct {
	at, remove int
	insert     string
}

// change applies edits, which must be in order.
func (p *Program) change(edits []edit, before string) {
	var pieces []piece
	from := 0
	for _, e := range edits {
		pieces = append(pieces, piece{from: from, to: e.at}, piece{from: e.at, text: e.insert})
		from = e.at + e.remove
	}
	p.assemble(append(pieces, piece{from: from, to: len(before)}), before)
}

// piece is a part of a text, either from the text before or inserted at from.
type piece struct {
	from, to int
	text     string
}

// assemble joins pieces into a text.
func (p *Program) assemble(pieces []piece, before string) {
	var after strings.Builder
	for _, part := range pieces {
		if part.text != "" {
			after.WriteString(part.text)
		} else if part.to > part.from {
			after.WriteString(before[part.from:part.to])
		}
	}
	p.Source = after.String()
	text := p.Source
	p.layers = append(p.layers, func(line, column int) (int, int, bool) {
		line, column = position(before, origin(pieces, offset(text, line, column)))
		return line, column, true
	})
}

// origin returns where a byte of an assembled text was before.
func origin(pieces []piece, at int) int {
	last := 0
	for _, part := range pieces {
		length := len(part.text)
		if part.text == "" {
			length = max(part.to-part.from, 0)
			last = max(part.from, part.to)
		}
		if at < length {
			if part.text == "" {
				return part.from + at
			}
			return part.from
		}
		at -= length
	}
	return last
}

// offset returns the byte offset of a line and column; columns count runes.
func offset(text string, line, column int) int {
	at := 0
	for ; line > 1; line-- {
		next := strings.IndexByte(text[at:], '\n')
		if next < 0 {
			return len(text)
		}
		at += next + 1
	}
	for ; column > 1 && at < len(text) && text[at] != '\n'; column-- {
		_, size := utf8.DecodeRuneInString(text[at:])
		at += size
	}
	return at
}

func position(text string, at int) (line, column int) {
	before := text[:min(max(at, 0), len(text))]
	start := strings.LastIndexByte(before, '\n') + 1
	return strings.Count(before, "\n") + 1, utf8.RuneCountInString(before[start:]) + 1
}

// Place maps a position in Source to the author's text.
func (p *Program) Place(line, column int) (int, int, bool) {
	ok := line > 0
	for i := len(p.layers) - 1; i >= 0 && ok; i-- {
		line, column, ok = p.layers[i](line, column)
	}
	if !ok || line > strings.Count(p.author, "\n")+1 {
		return 0, 0, false
	}
	return line, column, true
}

var frame = regexp.MustCompile(`(?m)^(    at .*?\(?)<program>:(\d+):(\d+)(\)?)$\n?`)

// Blame rewrites the positions in a failure that the guest described, whose file is
// <program>, to positions in the author's text.
func (p *Program) Blame(f *bridge.Failure) {
	f.Trace = frame.ReplaceAllStringFunc(f.Trace, func(text string) string {
		part := frame.FindStringSubmatch(text)
		line, _ := strconv.Atoi(part[2])
		column, _ := strconv.Atoi(part[3])
		line, column, ok := p.Place(line, column)
		if !ok {
			return ""
		}
		return fmt.Sprintf("%s%s:%d:%d%s\n", part[1], p.name, line, column, part[4])
	})
	if f.Line > 0 {
		f.File = p.name
		f.Line, f.Column, _ = p.Place(f.Line, f.Column)
	}
}

// fail returns a failure at a byte of the current text.
func (p *Program) fail(kind bridge.FailureKind, at int, typ, format string, args ...any) *bridge.Failure {
	f := &bridge.Failure{Kind: kind, Type: typ, Message: fmt.Sprintf(format, args...), File: p.name}
	f.Line, f.Column, _ = p.Place(position(p.Source, at))
	return f
}
