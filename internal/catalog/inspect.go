package catalog

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

// The rules that a [Finding] can have.
const (
	// HiddenText is text that models read and people do not see.
	HiddenText = "hidden_text"
	// Misplaced is prose where a schema has names and keywords, which people do
	// not read.
	Misplaced = "misplaced_text"
	// Shadow is a name that another source's tool has, with another description.
	Shadow = "shadow"
	// Lookalike is a name that looks like another source's.
	Lookalike = "lookalike"
)

// Finding is one text that a person should look at, however often it occurs.
type Finding struct {
	Rule string `json:"rule"`
	// Tool and Where are the first place: a JSON pointer into the definition of the
	// tool, or "instructions" of the source.
	Tool  string `json:"tool,omitempty"`
	Where string `json:"where"`
	// Places is the number of places that have the text.
	Places int `json:"places"`
	// Says describes the problem, and Excerpt is the text, with hidden characters
	// escaped.
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

// SummarizeFindings returns a line for each thing that is wrong, in the order of the
// first findings that say so.
func SummarizeFindings(found []Finding) []string {
	type problem struct{ rule, says string }
	texts := map[problem]int{}
	var firsts []Finding
	for _, f := range found {
		p := problem{f.Rule, f.Says}
		if texts[p]++; texts[p] == 1 {
			firsts = append(firsts, f)
		}
	}
	lines := make([]string, len(firsts))
	for i, f := range firsts {
		lines[i] = f.String()
		if n := texts[problem{f.Rule, f.Says}]; n > 1 {
			lines[i] = fmt.Sprintf("%d texts, the first is %s", n, f)
		}
	}
	return lines
}

// Limits of one inspection. What is beyond them is a finding itself.
const (
	maxText     = 1 << 20   // bytes of one text
	maxTexts    = 128 << 20 // bytes of all definitions of a source
	maxFindings = 1000
)

// Inspect searches the definitions of one source's tools, and the source's instructions, for
// text that models read and people do not see, and for names that look like those of others,
// which are the tools of other sources. It considers the form of texts, not their meaning.
// The findings are in the order of the tools.
func Inspect(tools, others []toolroom.Tool, instructions string) []Finding {
	in := inspection{index: map[Finding]int{}, seed: maphash.MakeSeed(), texts: map[uint64][]int{}, documents: map[uint64][]int{}}
	in.text("", "instructions", instructions)
	for i := range tools {
		in.tool(&tools[i])
	}
	in.names(tools, others)
	return in.found
}

// inspection holds the findings. A text or document that occurs again, such as a schema that
// many operations of an API share, is not read again.
type inspection struct {
	found     []Finding
	index     map[Finding]int  // place in found, by finding without its places
	seed      maphash.Seed     // of the keys below
	texts     map[uint64][]int // places in found, by text
	documents map[uint64][]int // by whole document
	added     []int            // those of the document that is being read
	read      int              // bytes
}

// add adds a finding.
func (in *inspection) add(rule string, tool, where, says, excerpt string) {
	f := Finding{Rule: rule, Says: says, Excerpt: visible.Text(excerpt)}
	at, known := in.index[f]
	if !known {
		if len(in.found) == maxFindings {
			return
		}
		at = len(in.found)
		in.index[f] = at
		f.Tool, f.Where = tool, where
		in.found = append(in.found, f)
	}
	in.addPlaces([]int{at})
}

// addPlaces counts one more place for each of these findings, which are indexes in found.
func (in *inspection) addPlaces(found []int) {
	for _, at := range found {
		in.found[at].Places++
	}
	in.added = append(in.added, found...)
}

func (in *inspection) tool(t *toolroom.Tool) {
	id := t.ID.String()
	in.text(id, "/title", t.Title)
	in.text(id, "/description", t.Description)
	in.text(id, "/notes", t.Notes)
	in.document(id, "/input_schema", t.InputSchema, true)
	in.document(id, "/output_schema", t.OutputSchema, true)
	var raw map[string]json.RawMessage
	if json.Unmarshal(t.Raw, &raw) == nil {
		// The members that Toolroom models were inspected above.
		for _, known := range []string{"name", "title", "description", "inputSchema", "outputSchema"} {
			delete(raw, known)
		}
		for _, name := range slices.Sorted(maps.Keys(raw)) {
			in.text(id, "/"+name, name)
			in.document(id, "/"+name, raw[name], false)
		}
	}
}

// document inspects every text within a document: models read names and defaults as well
// as descriptions.
func (in *inspection) document(id, where string, document json.RawMessage, isSchema bool) {
	if len(document) == 0 {
		return
	}
	key := maphash.Bytes(in.seed, document)
	if known, ok := in.documents[key]; ok {
		in.addPlaces(known)
		return
	}
	if in.read += len(document); in.read > maxTexts {
		in.add(HiddenText, "", "", fmt.Sprintf("its definitions have more than %d bytes; the rest was not looked at", maxTexts), "")
		return
	}
	var tree any
	if json.Unmarshal(document, &tree) != nil {
		return
	}
	in.added = nil
	in.value(id, where, "", tree, isSchema)
	in.documents[key] = in.added
}

// value inspects a value. Keyword is the name of the member that holds it, directly or in a
// list.
func (in *inspection) value(id, where, keyword string, v any, isSchema bool) {
	switch v := v.(type) {
	case string:
		in.text(id, where, v)
		if says := misplacedReason(keyword, v); isSchema && says != "" {
			in.add(Misplaced, id, where, says, excerptAround(v, 0, 0))
		}
	case []any:
		for i, child := range v {
			in.value(id, memberPath(where, strconv.Itoa(i)), keyword, child, isSchema)
		}
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			at := memberPath(where, name)
			in.text(id, at, name)
			switch keyword {
			case "properties", "patternProperties", "$defs", "definitions", "dependentSchemas":
				if isSchema && keyword == "properties" && isProse(name) {
					in.add(Misplaced, id, at, "the name of a parameter is a sentence", excerptAround(name, 0, 0))
				}
				in.value(id, at, "", v[name], isSchema) // a parameter may be called type
			default:
				isData := slices.Contains([]string{"default", "const", "enum", "example", "examples"}, name)
				in.value(id, at, name, v[name], isSchema && !isData)
			}
		}
	}
}

// maxWhere bounds a place, in bytes. It is copied for each value below a name, and a name
// from outside may be long.
const maxWhere = 1000

// memberPath returns the JSON pointer of a member, truncated with an ellipsis if it is too long.
func memberPath(where, name string) string {
	if strings.HasSuffix(where, "…") {
		return where
	}
	if len(where)+len("/")+len(name) > maxWhere {
		return strings.ToValidUTF8(where+"/"+name[:min(len(name), max(0, maxWhere-len(where)))], "") + "…"
	}
	return where + "/" + name
}

// misplacedReason says what is wrong with a string as the value of a schema's keyword, or
// returns "".
func misplacedReason(keyword, text string) string {
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

// text inspects one text.
func (in *inspection) text(id, where, text string) {
	if text == "" {
		return
	}
	key := maphash.String(in.seed, text)
	if known, ok := in.texts[key]; ok {
		in.addPlaces(known)
		return
	}
	before := len(in.added)
	if len(text) > maxText {
		in.add(HiddenText, id, where, fmt.Sprintf("it has more than %d bytes, which nobody reads; the rest was not looked at", maxText), "")
		text = strings.ToValidUTF8(text[:maxText], "")
	}
	for _, h := range hiddenText(text) {
		in.add(HiddenText, id, where, h.says, h.excerpt)
	}
	in.texts[key] = slices.Clone(in.added[before:])
}

// maxExcerpt bounds an excerpt, in runes.
const maxExcerpt = 120

// excerptAround returns the text around an offset range, on one line.
func excerptAround(text string, start, end int) string {
	runes := []rune(strings.Join(strings.Fields(text[max(0, start-30):min(len(text), end+80)]), " "))
	if len(runes) > maxExcerpt {
		runes = append(runes[:maxExcerpt], '…')
	}
	return strings.ToValidUTF8(string(runes), "")
}
