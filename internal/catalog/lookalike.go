package catalog

import (
	"strings"

	"github.com/toolroom/toolroom"
)

// names compares the names of tools with those of other sources, so that a model does not
// call one tool in place of another. The same server under two names is no finding.
func (in *inspection) names(tools, others []toolroom.Tool) {
	known := map[string][]*toolroom.Tool{}
	for i := range others {
		key := skeleton(others[i].ID.Name)
		known[key] = append(known[key], &others[i])
	}
	for i := range tools {
		t := &tools[i]
		for _, other := range known[skeleton(t.ID.Name)] {
			var rule, says string
			switch {
			case other.ID.Namespace == t.ID.Namespace, other.Description == t.Description:
				continue
			case withoutSeparators(other.ID.Name) != withoutSeparators(t.ID.Name):
				rule, says = Lookalike, "its name looks like that of a tool of "
			case max(len(nameWords(t.ID.Name)), len(nameWords(other.ID.Name))) > 1 && (t.Source == toolroom.SourceMCP || other.Source == toolroom.SourceMCP):
				// A single word, such as search, is common. Only an MCP server can change the
				// names of its tools at any time.
				rule, says = Shadow, "a tool has that name in "
			default:
				continue
			}
			in.add(rule, t.ID.String(), "/id", says+other.ID.Namespace, t.ID.Name)
		}
	}
}

// withoutSeparators returns the same text for names that differ only in case and separators.
func withoutSeparators(name string) string {
	return strings.NewReplacer("_", "", "-", "", ".", "").Replace(strings.ToLower(name))
}

// skeleton returns the same text for names that look alike: after UTS 39, "Unicode
// Security Mechanisms", for the characters that names may have.
func skeleton(name string) string {
	return strings.NewReplacer("0", "o", "1", "l", "i", "l", "|", "l", "5", "s", "rn", "m", "vv", "w", "_", "", "-", "", ".", "").
		Replace(strings.ToLower(strings.Map(latinLookalike, name)))
}

func nameWords(name string) []string {
	return strings.FieldsFunc(name, func(r rune) bool { return r == '_' || r == '-' || r == '.' })
}

// latinLookalike returns the Latin letter that r looks like, or r. Of the Unicode file
// confusables.txt it knows the Cyrillic and Greek letters with which Latin words can be spelled.
func latinLookalike(r rune) rune {
	const from = "асеорхуіјѕԁһԛԝАВСЕНІЈКМОРЅТХУаοαενιρτυΑΒΕΖΗΙΚΜΝΟΡΤΥΧ"
	const to = "aceopxyijsdhqwABCEHIJKMOPSTXYaoaevlptuABEZHIKMNOPTYX"
	if r < 0x80 {
		return r
	}
	if 0xff01 <= r && r <= 0xff5e { // full width
		return r - 0xff01 + '!'
	}
	if 0x1d400 <= r && r <= 0x1d6a3 { // letters of mathematics
		n := (r - 0x1d400) % 52
		if n < 26 {
			return 'A' + n
		}
		return 'a' + n - 26
	}
	at := 0
	for _, f := range from {
		if f == r {
			return rune(to[at])
		}
		at++
	}
	return r
}
