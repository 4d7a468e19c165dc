// Package poison looks at what tools say of themselves for text that models read
// and people do not see, and for names that pass for another source's. It reads
// structure, never meaning: it does not judge sentences.
package poison

import (
	"encoding/json"
	"fmt"
	"hash/maphash"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/visible"
)

// Rule names a kind of finding.
type Rule string

// The rules.
const (
	// HiddenText is text that models read and people do not see.
	HiddenText Rule = "hidden_text"
	// Misplaced is prose where a schema has names and keywords, which people do
	// not read.
	Misplaced Rule = "misplaced_text"
	// Shadow is a name that another source's tool has, with another description.
	Shadow Rule = "shadow"
	// Lookalike is a name that looks like another source's.
	Lookalike Rule = "lookalike"
)

// Finding is one text that a person should look at, however often it occurs.
type Finding struct {
	Rule Rule `json:"rule"`
	// Tool and Where are the first place: a JSON pointer into the definition of the
	// tool, or "instructions" of the source.
	Tool  string `json:"tool,omitempty"`
	Where string `json:"where"`
	// Places is the number of places that have the text.
	Places int `json:"places"`
	// Says is what is wrong, and Excerpt the text, with hidden characters written
	// as escapes.
	Says    string `json:"says"`
	Excerpt string `json:"excerpt,omitempty"`
}

// String returns one line for people.
func (f Finding) String() string {
	line := fmt.Sprintf("%s%s: %s", f.Tool, f.Where, f.Says)
	if f.Excerpt != "" {
		line += ": " + f.Excerpt
	}
	if f.Places > 1 {
		line += fmt.Sprintf(" (in %d places)", f.Places)
	}
	return line
}

// Group is the findings that say the same.
type Group struct {
	Texts int
	First Finding
}

// String returns one line for people.
func (g Group) String() string {
	if g.Texts == 1 {
		return g.First.String()
	}
	return fmt.Sprintf("%d texts, the first is %s", g.Texts, g.First)
}

// Groups groups findings by what they say, in the order of the first ones.
func Groups(found []Finding) []Group {
	var groups []Group
	for _, f := range found {
		at := slices.IndexFunc(groups, func(g Group) bool { return g.First.Rule == f.Rule && g.First.Says == f.Says })
		if at < 0 {
			at = len(groups)
			groups = append(groups, Group{First: f})
		}
		groups[at].Texts++
	}
	return groups
}

// Options are what tools are judged by.
type Options struct {
	// Others are tools of other sources.
	Others []toolroom.Tool
	// Instructions is what the source says of itself.
	Instructions string
}

// Bounds of one look. What is beyond them is a finding itself.
const (
	maxText     = 1 << 20   // bytes of one text
	maxTexts    = 128 << 20 // bytes of all definitions of a source
	maxFindings = 1000
)

// Look looks at the tools of one source. The findings are in the order of the tools.
func Look(tools []toolroom.Tool, o Options) []Finding {
	l := look{index: map[Finding]int{}, seed: maphash.MakeSeed(), texts: map[uint64][]int{}, documents: map[uint64][]int{}}
	l.text("", "instructions", o.Instructions)
	for i := range tools {
		l.tool(&tools[i])
	}
	l.names(tools, o.Others)
	return l.found
}

// look keeps what was found. A text or document that occurs again, such as a schema that
// many operations of an API share, is not read again.
type look struct {
	found     []Finding
	index     map[Finding]int  // place in found, by finding without its places
	seed      maphash.Seed     // of the keys below
	texts     map[uint64][]int // places in found, by text
	documents map[uint64][]int // by whole document
	added     []int            // those of the document that is being read
	read      int              // bytes
}

// add adds a finding.
func (l *look) add(rule Rule, tool, where, says, excerpt string) {
	f := Finding{Rule: rule, Says: says, Excerpt: visible.Text(excerpt)}
	at, known := l.index[f]
	if !known {
		if len(l.found) == maxFindings {
			return
		}
		at = len(l.found)
		l.index[f] = at
		f.Tool, f.Where = tool, where
		l.found = append(l.found, f)
	}
	l.again([]int{at})
}

// again counts findings at one more place.
func (l *look) again(found []int) {
	for _, at := range found {
		l.found[at].Places++
	}
	l.added = append(l.added, found...)
}

func (l *look) tool(t *toolroom.Tool) {
	id := t.ID.String()
	l.text(id, "/title", t.Title)
	l.text(id, "/description", t.Description)
	l.text(id, "/notes", t.Notes)
	l.document(id, "/input_schema", t.InputSchema, true)
	l.document(id, "/output_schema", t.OutputSchema, true)
	var raw map[string]json.RawMessage
	if json.Unmarshal(t.Raw, &raw) == nil {
		// What Toolroom models has been looked at.
		for _, known := range []string{"name", "title", "description", "inputSchema", "outputSchema"} {
			delete(raw, known)
		}
		for _, name := range slices.Sorted(maps.Keys(raw)) {
			l.text(id, "/"+name, name)
			l.document(id, "/"+name, raw[name], false)
		}
	}
}

// document looks at every text within a document: models read names and defaults as well
// as descriptions.
func (l *look) document(id, where string, document json.RawMessage, isSchema bool) {
	if len(document) == 0 {
		return
	}
	key := maphash.Bytes(l.seed, document)
	if known, ok := l.documents[key]; ok {
		l.again(known)
		return
	}
	if l.read += len(document); l.read > maxTexts {
		l.add(HiddenText, "", "", fmt.Sprintf("its definitions have more than %d bytes; the rest was not looked at", maxTexts), "")
		return
	}
	var tree any
	if json.Unmarshal(document, &tree) != nil {
		return
	}
	l.added = nil
	l.value(id, where, "", tree, isSchema)
	l.documents[key] = l.added
}

// value looks at a value. Keyword is the name of the member that it is, or that holds the
// list it is in.
func (l *look) value(id, where, keyword string, v any, isSchema bool) {
	switch v := v.(type) {
	case string:
		l.text(id, where, v)
		if says := misplaced(keyword, v); isSchema && says != "" {
			l.add(Misplaced, id, where, says, around(v, 0, 0))
		}
	case []any:
		for i, child := range v {
			l.value(id, below(where, strconv.Itoa(i)), keyword, child, isSchema)
		}
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			at := below(where, name)
			l.text(id, at, name)
			switch keyword {
			case "properties", "patternProperties", "$defs", "definitions", "dependentSchemas":
				if isSchema && keyword == "properties" && isProse(name) {
					l.add(Misplaced, id, at, "the name of a parameter is a sentence", around(name, 0, 0))
				}
				l.value(id, at, "", v[name], isSchema) // a parameter may be called type
			default:
				isData := slices.Contains([]string{"default", "const", "enum", "example", "examples"}, name)
				l.value(id, at, name, v[name], isSchema && !isData)
			}
		}
	}
}

// maxWhere bounds a place, in bytes. It is copied for each value below a name, and a name
// from outside may be long.
const maxWhere = 1000

// below returns the place of a member, cut with an ellipsis if it is too long.
func below(where, name string) string {
	if strings.HasSuffix(where, "…") {
		return where
	}
	if len(where)+len("/")+len(name) > maxWhere {
		return strings.ToValidUTF8(where+"/"+name[:min(len(name), max(0, maxWhere-len(where)))], "") + "…"
	}
	return where + "/" + name
}

// misplaced says what is wrong with a string as the value of a schema's keyword, or
// returns "".
func misplaced(keyword, text string) string {
	switch keyword {
	case "$comment":
		return "a comment in a schema is shown to nobody"
	case "type", "format", "required", "$id", "$anchor", "contentEncoding", "contentMediaType":
		if isProse(text) {
			return "the keyword " + keyword + " holds a sentence"
		}
	}
	return ""
}

// isProse reports whether a text is more than a name.
func isProse(text string) bool {
	return len(strings.Fields(text)) >= 6 || len(strings.Fields(strings.ReplaceAll(text, "_", " "))) >= 12
}

// text looks at one text.
func (l *look) text(id, where, text string) {
	if text == "" {
		return
	}
	key := maphash.String(l.seed, text)
	if known, ok := l.texts[key]; ok {
		l.again(known)
		return
	}
	before := len(l.added)
	if len(text) > maxText {
		l.add(HiddenText, id, where, fmt.Sprintf("it has more than %d bytes, which nobody reads; the rest was not looked at", maxText), "")
		text = strings.ToValidUTF8(text[:maxText], "")
	}
	for _, h := range hidden(text) {
		l.add(HiddenText, id, where, h.says, h.excerpt)
	}
	l.texts[key] = slices.Clone(l.added[before:])
}

// maxExcerpt bounds an excerpt, in runes.
const maxExcerpt = 120

// around is what is near a place in a text.
func around(text string, start, end int) string {
	runes := []rune(strings.Join(strings.Fields(text[max(0, start-30):min(len(text), end+80)]), " "))
	if len(runes) > maxExcerpt {
		runes = append(runes[:maxExcerpt], '…')
	}
	return strings.ToValidUTF8(string(runes), "")
}
