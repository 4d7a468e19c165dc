package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/toolroom/toolroom/internal/nearest"
)

// Problem is one mistake in a config.
type Problem struct {
	File         string
	Line, Column int
	// Key is the path of the key, such as sources.github.mcp.args[1]; empty if the text is
	// not YAML.
	Key    string
	Reason string
	// Hint is a suggestion; it may be empty.
	Hint string
}

// String formats the problem as one line: file:line:column: key: reason; hint. A problem of a
// text that is in no file has no position.
func (p Problem) String() string {
	var b strings.Builder
	if p.File != "" {
		fmt.Fprintf(&b, "%s:%d:%d: ", p.File, p.Line, p.Column)
	}
	if p.Key != "" {
		b.WriteString(p.Key + ": ")
	}
	b.WriteString(p.Reason)
	if p.Hint != "" {
		b.WriteString("; " + p.Hint)
	}
	return b.String()
}

// Errors holds all mistakes of a config, at most 100, ordered by position.
type Errors struct {
	Problems []Problem
}

// Error prints one problem per line.
func (e *Errors) Error() string {
	lines := make([]string, len(e.Problems))
	for i, p := range e.Problems {
		lines[i] = p.String()
	}
	return strings.Join(lines, "\n")
}

// maxProblems bounds the work for a file that is full of mistakes.
const maxProblems = 100

// problems collects mistakes.
type problems struct {
	file  string
	found []Problem
}

func (p *problems) add(at position, key, reason, hint string) {
	if p.full() {
		return
	}
	p.found = append(p.found, Problem{p.file, at.line, at.column, key, reason, hint})
}

func (p *problems) full() bool { return len(p.found) >= maxProblems }

func (p *problems) errors() *Errors {
	slices.SortStableFunc(p.found, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	return &Errors{p.found}
}

// position is a line and a column, counted from 1.
type position struct{ line, column int }

// didYouMean suggests the nearest known name, or else lists all of them.
func didYouMean(name string, known []string) string {
	if meant, ok := nearest.Of(name, known); ok {
		return "did you mean " + meant + "?"
	}
	return "known: " + strings.Join(known, ", ")
}

// quote quotes a text of the file, shortened.
func quote(s string) string {
	const most = 40
	if r := []rune(s); len(r) > most {
		s = string(r[:most]) + "…"
	}
	return fmt.Sprintf("%q", s)
}
