// Package program makes what an author wrote ready to run: the toolexec form,
// TypeScript and programs that end in an expression become one asynchronous
// JavaScript function, mistakes in calls of tools are found before anything
// runs, and positions lead back to the author's text.
package program

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/toolroom/toolroom/bridge"
)

// Program is a text that is ready to run.
type Program struct {
	// Source is an expression: an asynchronous function without parameters.
	Source string

	author string
	name   string
	// layers lead from Source back to the author's text, the last applied first.
	layers []layer
}

// layer leads from positions in the text after a change to the text before
// it. Lines and columns count from 1; ok false means that the position is of
// nothing in the text before.
type layer func(line, column int) (int, int, bool)

// The function around the author's text. It takes no line of its own.
const (
	opening = "(async()=>{"
	closing = "\n})"
)

// Prepare makes a program in language javascript or typescript ready. A
// program that cannot run is a failure of kind syntax or check: nothing of it
// has run.
func Prepare(p bridge.Program) (*Program, *bridge.Failure) {
	ready := &Program{author: p.Source, name: p.Name}
	ready.change([]edit{{0, 0, opening}, {len(p.Source), 0, closing}}, p.Source)
	if edits := assignments(ready.Source); len(edits) > 0 {
		ready.change(edits, ready.Source)
	}
	syntax, err := parse(ready.Source)
	if p.Language == "typescript" || err != nil {
		if failure := ready.strip(); failure != nil {
			return nil, failure
		}
		// What the parser does not know is left to the engine, unchecked.
		syntax, err = parse(ready.Source)
	}
	if err != nil {
		return ready, nil
	}
	if failure := ready.check(syntax, p.Tools); failure != nil {
		return nil, failure
	}
	if edits := syntax.lastValue(); len(edits) > 0 {
		ready.change(edits, ready.Source)
	}
	return ready, nil
}

// edit replaces remove bytes at an offset.
type edit struct {
	at, remove int
	insert     string
}

// change applies edits, which stand in order and hold no line ends but at the
// end of the text.
func (p *Program) change(edits []edit, before string) {
	var after strings.Builder
	from := 0
	for _, e := range edits {
		after.WriteString(before[from:e.at])
		after.WriteString(e.insert)
		from = e.at + e.remove
	}
	after.WriteString(before[from:])
	p.Source = after.String()
	afterText := p.Source
	p.layers = append(p.layers, func(line, column int) (int, int, bool) {
		at := offset(afterText, line, column)
		grown := 0
		for _, e := range edits {
			start := e.at + grown
			if at < start {
				break
			}
			if at < start+len(e.insert) { // within what was put in
				at = start
				break
			}
			grown += len(e.insert) - e.remove
		}
		at -= grown
		line, column = position(before, at)
		return line, column, true
	})
}

// offset is the byte at a line and column, columns counted in runes.
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

// Place leads a position of what ran back to the author's text.
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

// Blame writes positions of the author's text into a failure that the guest
// described, whose file is <program>.
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

// fail makes a failure at a byte of the text as it is now.
func (p *Program) fail(kind bridge.FailureKind, at int, typ, format string, args ...any) *bridge.Failure {
	f := &bridge.Failure{Kind: kind, Type: typ, Message: fmt.Sprintf(format, args...), File: p.name}
	f.Line, f.Column, _ = p.Place(position(p.Source, at))
	return f
}
