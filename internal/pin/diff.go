package pin

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/toolroom/toolroom/internal/jsonx"
)

// State is how a tool compares with its pin.
type State string

// The states.
const (
	Same    State = "same"
	Changed State = "changed"
	New     State = "new"
	Gone    State = "gone"
)

// Difference is how one tool compares with its pin.
type Difference struct {
	Tool    string   `json:"tool"`
	State   State    `json:"state"`
	Changes []Change `json:"changes,omitempty"`
}

// Change is one place in a definition that says something else. Old or New is
// empty where there was or is nothing; texts are without their quotes.
type Change struct {
	// Path is a JSON pointer.
	Path string `json:"path"`
	Old  string `json:"old,omitempty"`
	New  string `json:"new,omitempty"`
}

// Compare compares what a source offers now with what was taken, in the order
// of the tools.
func Compare(taken, now []Pin) []Difference {
	old := map[string]Pin{}
	for _, p := range taken {
		old[p.Tool] = p
	}
	var out []Difference
	for _, p := range now {
		before, known := old[p.Tool]
		delete(old, p.Tool)
		switch {
		case !known:
			out = append(out, Difference{Tool: p.Tool, State: New})
		case before.Hash == p.Hash:
			out = append(out, Difference{Tool: p.Tool, State: Same})
		default:
			out = append(out, Difference{Tool: p.Tool, State: Changed, Changes: changes(before, p)})
		}
	}
	for tool := range old {
		out = append(out, Difference{Tool: tool, State: Gone})
	}
	slices.SortFunc(out, func(a, b Difference) int { return compare(a.Tool, b.Tool) })
	return out
}

func compare(a, b string) int { return strings.Compare(a, b) }

func changes(before, now Pin) []Change {
	var out []Change
	walk("", tree(before), tree(now), &out)
	return out
}

func tree(p Pin) any {
	seen, err := Seen(p.Definition, p.Raw)
	if err != nil {
		return string(p.Definition)
	}
	doc, err := jsonx.Decode(seen, jsonx.Limits{})
	if err != nil {
		return string(seen)
	}
	return doc
}

var escapes = strings.NewReplacer("~", "~0", "/", "~1")

func walk(path string, a, b any, out *[]Change) {
	x, xIsObject := a.(map[string]any)
	y, yIsObject := b.(map[string]any)
	if xIsObject && yIsObject {
		names := maps.Clone(x)
		maps.Copy(names, y)
		for _, name := range slices.Sorted(maps.Keys(names)) {
			walk(path+"/"+escapes.Replace(name), x[name], y[name], out)
		}
		return
	}
	p, pIsList := a.([]any)
	q, qIsList := b.([]any)
	if pIsList && qIsList && len(p) == len(q) {
		for i := range p {
			walk(path+"/"+strconv.Itoa(i), p[i], q[i], out)
		}
		return
	}
	if old, now := text(a), text(b); old != now {
		*out = append(*out, Change{path, old, now})
	}
}

func text(v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case string:
		return v
	default:
		out, _ := json.Marshal(v) // it came from JSON
		return string(out)
	}
}
