// Package poison looks for attacks on models in what tools say of themselves:
// hidden text, instructions that are not about the tool, names that stand in
// for another tool's, and parameters that collect what is none of the tool's
// business. [Lint] is a reader, not a wall: who knows its rules can write around
// them. Its precision and recall on a labelled set are measured by
// "toolroom bench poison".
package poison

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/toolroom/toolroom"
)

// Rule names a kind of attack.
type Rule string

// The rules.
const (
	// HiddenText is text that people do not see and models read.
	HiddenText Rule = "hidden_text"
	// Instruction is an order to the model that is not about using this tool.
	Instruction Rule = "instruction"
	// CrossTool is an order about another tool.
	CrossTool Rule = "cross_tool"
	// Lookalike is a name that can be taken for another tool's.
	Lookalike Rule = "lookalike"
	// Collects is a parameter that asks for the conversation, or for what the
	// model was told.
	Collects Rule = "collects_context"
)

// Finding is something that a person should look at.
type Finding struct {
	Rule Rule   `json:"rule"`
	Tool string `json:"tool,omitempty"`
	// Where is a JSON pointer into the definition, or "instructions" of the source.
	Where string `json:"where"`
	// Says is what is wrong, and Excerpt the text, with hidden characters written
	// as escapes.
	Says    string `json:"says"`
	Excerpt string `json:"excerpt,omitempty"`
}

// String is one line for people.
func (f Finding) String() string {
	line := fmt.Sprintf("%s%s: %s", f.Tool, f.Where, f.Says)
	if f.Excerpt != "" {
		line += ": " + f.Excerpt
	}
	return line
}

// Options are what tools are judged by.
type Options struct {
	// Others are tools of other sources.
	Others []toolroom.ID
	// Instructions is what the source says of itself.
	Instructions string
}

// Lint looks at the tools of one source. Findings are in the order of the tools.
func Lint(tools []toolroom.Tool, o Options) []Finding {
	l := linter{foreign: foreign(tools, o.Others)}
	l.text("", "instructions", o.Instructions)
	for i := range tools {
		l.tool(&tools[i])
	}
	l.lookalikes(tools, o.Others)
	return l.found
}

type linter struct {
	// foreign are the names of other sources' tools, in lower case.
	foreign map[string]bool
	found   []Finding
}

func (l *linter) add(rule Rule, tool, where, says, excerpt string) {
	f := Finding{Rule: rule, Tool: tool, Where: where, Says: says, Excerpt: Visible(excerpt)}
	if !slices.Contains(l.found, f) {
		l.found = append(l.found, f)
	}
}

func (l *linter) tool(t *toolroom.Tool) {
	id := t.ID.String()
	l.text(id, "/title", t.Title)
	l.text(id, "/description", t.Description)
	l.text(id, "/notes", t.Notes)
	for _, part := range []struct {
		where string
		text  json.RawMessage
	}{{"/input_schema", t.InputSchema}, {"/output_schema", t.OutputSchema}} {
		var tree any
		if json.Unmarshal(part.text, &tree) == nil {
			l.schema(id, part.where, tree)
		}
	}
	var raw map[string]any
	if json.Unmarshal(t.Raw, &raw) == nil {
		// What Toolroom models has been looked at.
		for _, known := range []string{"name", "title", "description", "inputSchema", "outputSchema"} {
			delete(raw, known)
		}
		l.schema(id, "", raw)
	}
}

// schema looks at every text within: models read defaults and names as well as
// descriptions.
func (l *linter) schema(id, where string, v any) {
	switch v := v.(type) {
	case string:
		l.text(id, where, v)
	case []any:
		for i, child := range v {
			l.schema(id, fmt.Sprintf("%s/%d", where, i), child)
		}
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			at := where + "/" + name
			// A sentence in the place of a name is read as one.
			l.text(id, at, strings.NewReplacer("_", " ", "-", " ").Replace(name))
			if strings.HasSuffix(where, "/properties") {
				l.parameter(id, at, name, v[name])
			}
			l.schema(id, at, v[name])
		}
	}
}

// text looks at one text.
func (l *linter) text(id, where, text string) {
	if text == "" {
		return
	}
	for _, h := range hidden(text) {
		l.add(HiddenText, id, where, h.says, h.excerpt)
	}
	plain := unhide(text)
	for _, o := range orders(plain) {
		l.add(Instruction, id, where, o.says, o.excerpt)
	}
	if excerpt := l.crossTool(id, plain); excerpt != "" {
		l.add(CrossTool, id, where, "it gives orders about another tool", excerpt)
	}
}

// maxExcerpt bounds an excerpt, in runes.
const maxExcerpt = 120

// around is what is near a place in a text.
func around(text string, start, end int) string {
	runes := []rune(strings.Join(strings.Fields(text[max(0, start-30):min(len(text), end+40)]), " "))
	if len(runes) > maxExcerpt {
		runes = append(runes[:maxExcerpt], '…')
	}
	return strings.ToValidUTF8(string(runes), "")
}
