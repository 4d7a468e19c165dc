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
	// Key is the path of the key, such as sources.github.mcp.args[1]; empty
	// when the text could not be read as YAML.
	Key    string
	Reason string
	// Hint is what to write instead; it may be empty.
	Hint string
}

// String gives the problem in one line: file:line:column: key: reason; hint.
func (p Problem) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s:%d:%d: ", p.File, p.Line, p.Column)
	if p.Key != "" {
		b.WriteString(p.Key + ": ")
	}
	b.WriteString(p.Reason)
	if p.Hint != "" {
		b.WriteString("; " + p.Hint)
	}
	return b.String()
}

// Errors is every mistake that a config has, at most 100, in order of place.
type Errors struct {
	Problems []Problem
}

// Error prints one problem a line.
func (e *Errors) Error() string {
	lines := make([]string, len(e.Problems))
	for i, p := range e.Problems {
		lines[i] = p.String()
	}
	return strings.Join(lines, "\n")
}

// maxProblems bounds the work that a file of nothing but mistakes makes.
const maxProblems = 100

// problems collects mistakes.
type problems struct {
	file  string
	found []Problem
}

func (p *problems) add(at place, key, reason, hint string) {
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

// place is a line and column, from 1.
type place struct{ line, column int }

// didYouMean says which of the known names was meant, or lists them.
func didYouMean(name string, known []string) string {
	if meant, ok := nearest.Of(name, known); ok {
		return "did you mean " + meant + "?"
	}
	return "there are " + strings.Join(known, ", ")
}

// quote shows a text of the file, shortened.
func quote(s string) string {
	const most = 40
	if r := []rune(s); len(r) > most {
		s = string(r[:most]) + "…"
	}
	return fmt.Sprintf("%q", s)
}
