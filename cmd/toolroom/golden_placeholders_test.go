package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os/user"
	"regexp"
	"slices"
	"strings"
)

// placeholders replaces what differs from run to run. An id gets a name with a number,
// which later steps may use in its place.
type placeholders struct {
	fixed []string          // pairs of a text and its placeholder
	names map[string]string // by id
	ids   map[string]string // by name
	count map[string]int
}

func newPlaceholders(fixed ...string) *placeholders {
	return &placeholders{fixed: fixed, names: map[string]string{}, ids: map[string]string{}, count: map[string]int{}}
}

// idPatterns are patterns whose first group is the kind of an id, or whose kind is
// given, and whose last group is the id.
var idPatterns = []struct {
	kind    string
	pattern *regexp.Regexp
}{
	{"", regexp.MustCompile(`\b(call|apr|apg|res|art|elv|req|run|job|ses|tok|exe)_[0-9a-z]{12,32}\b`)},
	{"state", regexp.MustCompile(`(?:"requestState":")([^"]{20,})`)},
	{"cursor", regexp.MustCompile(`(?:"next(?:Cursor)?":")([^"]{20,})`)},
	{"task", regexp.MustCompile(`(?:"taskId":")([^"]{16,})`)},
	{"bearer", regexp.MustCompile(`\b(tr_[a-z2-7]{12}_[a-z2-7]+)\b`)},
	{"session", regexp.MustCompile(`\b([a-z0-9]{12}\.[A-Z2-7]{26})\b`)},
	{"event", regexp.MustCompile(`\b([A-Z2-7]{26}_[0-9]+)\b`)},
}

var bearer = regexp.MustCompile(`\btr_([a-z2-7]{12})_`)

// replacedPatterns are patterns with a fixed replacement.
var replacedPatterns = []struct {
	pattern *regexp.Regexp
	by      string
}{
	{regexp.MustCompile(`\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)?`), "TIME"},
	{regexp.MustCompile(`\b\d\d:\d\d:\d\d\b`), "TIME"}, // of today, in a table
	{regexp.MustCompile(`("(?:queue|wait|run|took|start|duration|cpu|approval|elapsed|peak_memory)_(?:ns|ms|bytes)": ?)\d+`), `${1}"VARIES"`},
	{regexp.MustCompile(`("isolation": ?")[^"]*`), "${1}VARIES"},
	{regexp.MustCompile(`("(?:hash|detail_digest)": ?"|\bhash +)[0-9a-f]{64}`), "${1}VARIES"},
	{regexp.MustCompile(`("(?:salt|signature|public_key|key|merkle_root|root)": ?")[^"]+`), "${1}VARIES"},
	// Texts of times, which artifacts have, are not all of one length.
	{regexp.MustCompile(`("artifacts":.*"bytes_out":)\d+`), `${1}"VARIES"`},
	{regexp.MustCompile(`( in |after |  )(?:\d+(?:\.\d+)?(?:ns|µs|ms|s|m|h))+\b`), "${1}DURATION"},
	{regexp.MustCompile(`("(?:retry_after_seconds|pid)":)[0-9.]+`), `${1}"VARIES"`},
	{regexp.MustCompile(`(= Retry-After: )\d+`), "${1}VARIES"},
	{regexp.MustCompile(`("pid":"VARIES","memory_bytes":)\d+`), `${1}"VARIES"`},
	{regexp.MustCompile(`("digest": ?")[0-9a-f]{64}`), "${1}VARIES"},
	{regexp.MustCompile(`(\bversion +\d+ \()[0-9a-f]{12}`), "${1}VARIES"},
	{regexp.MustCompile(`("count":\d+,"digest":")[0-9a-f]+`), "${1}VARIES"},
	{regexp.MustCompile(`(\| version +\d+ \()[0-9a-f]{12}\)`), "${1}VARIES)"},
	{regexp.MustCompile(`\b(signed with (?:the )?key )[0-9a-f]+`), "${1}KEY"},
	{regexp.MustCompile(`("engine":"js","bytes":)\d+`), `${1}"VARIES"`},
	{regexp.MustCompile(`\b\d+\.\d KiB`), "SIZE"},
	{regexp.MustCompile(`('nonce-)[A-Z2-7]+`), "${1}VARIES"},
	{regexp.MustCompile(`\b\d+ bytes are free`), "SOME bytes are free"},
}

// replace puts placeholders in place of what differs from run to run.
func (m *placeholders) replace(text string) string {
	for i := 0; i < len(m.fixed); i += 2 {
		if m.fixed[i] != "" {
			text = strings.ReplaceAll(text, m.fixed[i], m.fixed[i+1])
		}
	}
	for _, token := range bearer.FindAllStringSubmatch(text, -1) {
		m.name("token", token[1]) // its id, which later answers have
	}
	for _, n := range idPatterns {
		text = n.pattern.ReplaceAllStringFunc(text, func(found string) string {
			groups := n.pattern.FindStringSubmatch(found)
			id, kind := groups[1], n.kind
			if kind == "" {
				id, kind = found, groups[1]
			}
			return strings.Replace(found, id, m.name(kind, id), 1)
		})
	}
	for id, name := range m.names {
		text = strings.ReplaceAll(text, id, name)
	}
	for _, p := range replacedPatterns {
		text = p.pattern.ReplaceAllString(text, p.by)
	}
	if u, err := user.Current(); err == nil {
		by := regexp.MustCompile(`("(?:by|actor|user)": ?"|\bby )` + regexp.QuoteMeta(u.Username) + `\b`)
		text = by.ReplaceAllString(text, "${1}USER")
	}
	return text
}

func (m *placeholders) name(kind, id string) string {
	if m.names[id] == "" {
		m.count[kind]++
		name := fmt.Sprintf("%s#%d", kind, m.count[kind])
		m.names[id], m.ids[name] = name, id
	}
	return m.names[id]
}

var placeholderName = regexp.MustCompile(`\b[a-z]+#\d+\b`)

// restore puts the values back in place of the placeholders: first the fixed ones, because an id
// may have any letters.
func (m *placeholders) restore(text string) string {
	for i := 0; i < len(m.fixed); i += 2 {
		text = strings.ReplaceAll(text, m.fixed[i+1], m.fixed[i])
	}
	return placeholderName.ReplaceAllStringFunc(text, func(name string) string {
		if id, ok := m.ids[name]; ok {
			return id
		}
		return name
	})
}

// columns makes the gaps between columns two spaces wide, as the width of what is
// replaced differs.
func columns(text string) string { return gap.ReplaceAllString(text, "$1  $2") }

var gap = regexp.MustCompile(`(?m)(\S) {2,}(\S)`)

// width is how long a line of JSON may be before it is broken.
const width = 110

// breakJSON breaks compact JSON into lines; members, numbers and escapes stay as
// they are. It returns any other text unchanged.
func breakJSON(text string) string {
	trimmed := strings.TrimSuffix(text, "\n")
	var compact bytes.Buffer
	if json.Compact(&compact, []byte(trimmed)) != nil || compact.String() != trimmed {
		return text
	}
	var b strings.Builder
	writeJSON(&b, []byte(trimmed), "", "")
	return b.String() + "\n"
}

func writeJSON(b *strings.Builder, value []byte, label, indent string) {
	if len(indent)+len(label)+len(value) <= width || value[0] != '{' && value[0] != '[' {
		fmt.Fprintf(b, "%s%s%s", indent, label, value)
		return
	}
	open, end := string(value[0]), map[byte]string{'{': "}", '[': "]"}[value[0]]
	fmt.Fprintf(b, "%s%s%s\n", indent, label, open)
	labels, values := members(value)
	for i, v := range values {
		writeJSON(b, v, labels[i], indent+"  ")
		if i < len(values)-1 {
			b.WriteByte(',')
		}
		b.WriteByte('\n')
	}
	fmt.Fprintf(b, "%s%s", indent, end)
}

// members are the members of an object or the elements of an array, as written.
func members(value []byte) (labels []string, values []json.RawMessage) {
	d := json.NewDecoder(bytes.NewReader(value))
	if _, err := d.Token(); err != nil {
		panic(err)
	}
	for d.More() {
		label := ""
		if value[0] == '{' {
			before := d.InputOffset()
			if _, err := d.Token(); err != nil {
				panic(err)
			}
			label = strings.TrimLeft(string(value[before:d.InputOffset()]), ",") + ":"
		}
		var v json.RawMessage
		if err := d.Decode(&v); err != nil {
			panic(err)
		}
		labels, values = append(labels, label), append(values, slices.Clone(v))
	}
	return labels, values
}
