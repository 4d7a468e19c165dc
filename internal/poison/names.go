package poison

import (
	"strings"

	"github.com/toolroom/toolroom"
)

// lookalikes compares names with those of other tools: a model that means one
// must not get the other.
func (l *linter) lookalikes(tools []toolroom.Tool, others []toolroom.ID) {
	known := map[string][]toolroom.ID{}
	for _, id := range others {
		known[skeleton(id.Name)] = append(known[skeleton(id.Name)], id)
	}
	for _, t := range tools {
		for _, id := range known[skeleton(t.ID.Name)] {
			switch {
			case id.Name != t.ID.Name:
				l.add(Lookalike, t.ID.String(), "/id", "its name can be taken for that of "+id.String(), "")
			case len(words(id.Name)) > 1:
				// A single word, such as search, is everybody's.
				l.add(Lookalike, t.ID.String(), "/id", "it has the name of "+id.String(), "")
			}
		}
		for _, id := range others {
			if swapped(strings.ToLower(id.Name), strings.ToLower(t.ID.Name)) {
				l.add(Lookalike, t.ID.String(), "/id", "its name is that of "+id.String()+" misspelt", "")
			}
		}
		if name := t.ID.Namespace; name != "" {
			for _, id := range others {
				if id.Namespace != name && skeleton(id.Namespace) == skeleton(name) {
					l.add(Lookalike, t.ID.String(), "/id", "its namespace can be taken for "+id.Namespace, "")
					break
				}
			}
		}
	}
}

// skeleton is the same for names that look alike: after UTS 39, "Unicode
// Security Mechanisms", for the characters that names may have.
func skeleton(name string) string {
	return strings.NewReplacer("0", "o", "1", "l", "i", "l", "|", "l", "5", "s", "rn", "m", "vv", "w", "_", "", "-", "", ".", "").
		Replace(strings.ToLower(strings.Map(folded, name)))
}

// swapped reports whether two long names differ by neighbours that changed
// places, or by one letter too many in a run.
func swapped(a, b string) bool {
	if a == b || len(a) < 7 || len(b) < 7 {
		return false
	}
	if len(a) == len(b) {
		for i := 0; i+1 < len(a); i++ {
			if a[i] != b[i] {
				return a[i] == b[i+1] && a[i+1] == b[i] && a[i+2:] == b[i+2:]
			}
		}
		return false
	}
	if len(a) > len(b) {
		a, b = b, a
	}
	if len(b) != len(a)+1 {
		return false
	}
	for i := range len(a) {
		if a[i] != b[i] {
			return i > 0 && b[i] == b[i-1] && a[i:] == b[i+1:]
		}
	}
	return len(b) > 1 && b[len(b)-1] == b[len(b)-2]
}

func words(name string) []string {
	return strings.FieldsFunc(name, func(r rune) bool { return r == '_' || r == '-' || r == '.' })
}

// folded is the Latin letter that a rune looks like, or the rune. The letters
// are those of the Unicode file confusables.txt that small scripts of words are
// spelled with.
func folded(r rune) rune {
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

// foreign are names that no tool of the source has, but one of another source.
func foreign(tools []toolroom.Tool, others []toolroom.ID) map[string]bool {
	names := map[string]bool{}
	for _, id := range others {
		names[strings.ToLower(id.Name)] = true
	}
	for _, t := range tools {
		delete(names, strings.ToLower(t.ID.Name))
	}
	return names
}
