// Package bench measures how well package poison tells attacks from honest
// tools, on a labelled set.
package bench

import (
	"bufio"
	"bytes"
	"cmp"
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/poison"
)

// cases are attacks in our own words, after the public descriptions that they name,
// honest tools that are easily taken for attacks, and the definitions of real
// servers: the reference servers and github-mcp-server 1.9.0 (MIT),
// playwright-mcp 0.0.83 and chrome-devtools-mcp 1.11.0 (Apache-2.0).
//
//go:embed cases.jsonl
var cases []byte

// heldOut are attacks and honest tools that the rules were not made with: they
// were written, and measured, after the rules. Who makes a rule for one of them
// moves them all to cases and writes others.
//
//go:embed heldout.jsonl
var heldOut []byte

// Case is one line of a set: a tool as an MCP server defines it.
type Case struct {
	// Label is bad or benign, and Class the kind of attack, or where the tool is
	// from.
	Label string `json:"label"`
	Class string `json:"class"`
	// Source is the public description of an attack or of its kind, after which
	// it is made in other words; each attack of the built-in sets has one.
	Source string          `json:"source,omitempty"`
	Tool   json.RawMessage `json:"tool"`
	// Others are tools of other sources.
	Others []string `json:"others,omitempty"`
}

// Report is how the linter did. Precision is the part of what it reports that is
// bad, recall the part of what is bad that it reports.
type Report struct {
	Bad       int     `json:"bad"`
	Benign    int     `json:"benign"`
	Precision float64 `json:"precision"`
	Recall    float64 `json:"recall"`
	Classes   []Class `json:"classes"`
	// Missed are bad tools that passed, Wrong benign ones that were reported.
	Missed []string `json:"missed"`
	Wrong  []string `json:"wrong"`
}

// Class is how the linter did on one class.
type Class struct {
	Name     string `json:"name"`
	Label    string `json:"label"`
	Tools    int    `json:"tools"`
	Reported int    `json:"reported"`
}

// Own measures on the set that is built in, with which the rules were made.
func Own() (Report, error) { return Run(bytes.NewReader(cases)) }

// HeldOut measures on what the rules were not made with.
func HeldOut() (Report, error) { return Run(bytes.NewReader(heldOut)) }

// maxLine bounds a line of a set, in bytes.
const maxLine = 1 << 20

// Run measures on a set with one [Case] a line.
func Run(set io.Reader) (Report, error) {
	var r Report
	classes := map[[2]string]*Class{}
	hits := 0
	lines := bufio.NewScanner(set)
	lines.Buffer(nil, maxLine)
	for n := 1; lines.Scan(); n++ {
		var c Case
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			return r, fmt.Errorf("line %d: %w", n, err)
		}
		findings, name, err := c.lint()
		if err != nil {
			return r, fmt.Errorf("line %d: %w", n, err)
		}
		class := classes[[2]string{c.Label, c.Class}]
		if class == nil {
			class = &Class{Name: c.Class, Label: c.Label}
			classes[[2]string{c.Label, c.Class}] = class
		}
		class.Tools++
		if len(findings) > 0 {
			class.Reported++
		}
		switch {
		case c.Label == "bad" && len(findings) > 0:
			r.Bad++
			hits++
		case c.Label == "bad":
			r.Bad++
			r.Missed = append(r.Missed, c.Class+": "+name)
		case c.Label == "benign":
			r.Benign++
			if len(findings) > 0 {
				r.Wrong = append(r.Wrong, c.Class+": "+findings[0].String())
			}
		default:
			return r, fmt.Errorf("line %d: the label is %q, want bad or benign", n, c.Label)
		}
	}
	if r.Bad > 0 {
		r.Recall = float64(hits) / float64(r.Bad)
	}
	if reported := hits + len(r.Wrong); reported > 0 {
		r.Precision = float64(hits) / float64(reported)
	}
	for _, c := range classes {
		r.Classes = append(r.Classes, *c)
	}
	slices.SortFunc(r.Classes, func(a, b Class) int {
		return cmp.Or(strings.Compare(a.Label, b.Label), strings.Compare(a.Name, b.Name))
	})
	return r, lines.Err()
}

func (c Case) lint() ([]poison.Finding, string, error) {
	var t struct {
		Name         string          `json:"name"`
		Title        string          `json:"title"`
		Description  string          `json:"description"`
		InputSchema  json.RawMessage `json:"inputSchema"`
		OutputSchema json.RawMessage `json:"outputSchema"`
	}
	if err := json.Unmarshal(c.Tool, &t); err != nil {
		return nil, "", err
	}
	var others []toolroom.ID
	for _, text := range c.Others {
		id, err := toolroom.ParseID(text)
		if err != nil {
			return nil, "", err
		}
		others = append(others, id)
	}
	tool := toolroom.Tool{
		ID: toolroom.ID{Namespace: "case", Name: t.Name}, Title: t.Title, Description: t.Description,
		InputSchema: t.InputSchema, OutputSchema: t.OutputSchema, Raw: c.Tool,
	}
	return poison.Lint([]toolroom.Tool{tool}, poison.Options{Others: others}), t.Name, nil
}
