package js

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/evanw/esbuild/pkg/api"

	"github.com/toolroom/toolroom/bridge"
	"github.com/toolroom/toolroom/internal/pattern"
)

// Program is a program that is ready to run.
type Program struct {
	// Source is an expression: an asynchronous function without parameters; in a
	// session, a list of the names that it declares, and that function.
	Source string

	author string
	name   string
	// positionMaps map from Source back to the author's text, the last applied first.
	positionMaps []positionMap
}

// positionMap maps a position in the text after a change to the text before it. Lines and
// columns count from 1. If ok is false, the position has no counterpart.
type positionMap func(line, column int) (int, int, bool)

// The beginning and end of the function around the author's text. They add no line.
const (
	wrapperStart = "(async()=>{"
	wrapperEnd   = "\n})"
)

// Prepare prepares a program in language javascript or typescript. If the program
// cannot run, Prepare returns a failure of kind syntax or check; nothing of it has
// run.
func Prepare(p bridge.Program) (*Program, *bridge.Failure) {
	ready := &Program{author: p.Source, name: p.Name}
	if p.Bundled {
		ready.Source = wrapperStart + p.Source + wrapperEnd
		ready.positionMaps = []positionMap{func(line, column int) (int, int, bool) {
			if line == 1 {
				column -= len(wrapperStart)
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
	ready.applyEdits([]edit{{0, 0, wrapperStart}, {len(p.Source), 0, wrapperEnd}}, p.Source)
	if edits := toolexecEdits(ready.Source); len(edits) > 0 {
		ready.applyEdits(edits, ready.Source)
	}
	syntax, err := parse(ready.Source)
	if p.Language == "typescript" || err != nil {
		if failure := ready.stripTypes(api.ESNext); failure != nil {
			return nil, failure
		}
		syntax, err = parse(ready.Source)
	}
	if err != nil && p.Session != "" {
		if failure := ready.stripTypes(api.ES2020); failure != nil {
			return nil, failure
		}
		if syntax, err = parse(ready.Source); err != nil {
			return nil, ready.checkDeclarations()
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
		ready.wrapForSession(syntax)
	} else if edits := syntax.returnLastValue(); len(edits) > 0 {
		ready.applyEdits(edits, ready.Source)
	}
	return ready, nil
}

// edit replaces remove bytes at an offset.
type edit struct {
	at, remove int
	insert     string
}

// applyEdits applies edits to the source. They must be sorted by offset.
func (p *Program) applyEdits(edits []edit, before string) {
	var pieces []piece
	from := 0
	for _, e := range edits {
		pieces = append(pieces, piece{from: from, to: e.at}, piece{from: e.at, text: e.insert})
		from = e.at + e.remove
	}
	p.assemble(append(pieces, piece{from: from, to: len(before)}), before)
}

// piece is a part of a changed text: either a part of the text before, or text inserted at from.
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
	p.positionMaps = append(p.positionMaps, func(line, column int) (int, int, bool) {
		line, column = position(before, originOf(pieces, offset(text, line, column)))
		return line, column, true
	})
}

// originOf returns the offset in the text before of a byte of an assembled text.
func originOf(pieces []piece, at int) int {
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

// MapPosition maps a position in Source to the author's text.
func (p *Program) MapPosition(line, column int) (int, int, bool) {
	ok := line > 0
	for i := len(p.positionMaps) - 1; i >= 0 && ok; i-- {
		line, column, ok = p.positionMaps[i](line, column)
	}
	if !ok || line > strings.Count(p.author, "\n")+1 {
		return 0, 0, false
	}
	return line, column, true
}

var frameLine = pattern.Lazy(`(?m)^(    at .*?\(?)<program>:(\d+):(\d+)(\)?)$\n?`)

// MapFailure rewrites the positions in a guest's failure, whose file is <program>, to positions
// in the author's text.
func (p *Program) MapFailure(f *bridge.Failure) {
	f.Trace = frameLine().ReplaceAllStringFunc(f.Trace, func(text string) string {
		part := frameLine().FindStringSubmatch(text)
		line, _ := strconv.Atoi(part[2])
		column, _ := strconv.Atoi(part[3])
		line, column, ok := p.MapPosition(line, column)
		if !ok {
			return ""
		}
		return fmt.Sprintf("%s%s:%d:%d%s\n", part[1], p.name, line, column, part[4])
	})
	if f.Line > 0 {
		f.File = p.name
		f.Line, f.Column, _ = p.MapPosition(f.Line, f.Column)
	}
}

// failureAt returns a failure at a byte offset of the current text.
func (p *Program) failureAt(kind bridge.FailureKind, at int, typ, format string, args ...any) *bridge.Failure {
	f := &bridge.Failure{Kind: kind, Type: typ, Message: fmt.Sprintf(format, args...), File: p.name}
	f.Line, f.Column, _ = p.MapPosition(position(p.Source, at))
	return f
}
