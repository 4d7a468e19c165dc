package code

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/bridge"
	"github.com/toolroom/toolroom/internal/catalog"
	"github.com/toolroom/toolroom/internal/pattern"
	"github.com/toolroom/toolroom/internal/reserved"
)

// view is the set of tools that a program sees, by name.
type view struct {
	tools []bridge.Tool
	// hiddenNamespace is a namespace that an input of the same name hides, "" if there is
	// none.
	hiddenNamespace string
	// withheld maps omitted friendly names to the reasons.
	withheld bridge.Map
	// unknown are ids and namespaces in the program that match no tool.
	unknown bridge.Map
	// entries are the catalog entries of the tools, in the same order.
	entries []*catalog.Entry
}

var wordPattern = pattern.Lazy(`[\pL_$][\pL\pN_$]*`)

// newView returns the view with the visible tools whose namespace the program mentions, so
// that thousands of others cost nothing. The program can still call the others through
// call_tool and tools[...].
func newView(language, source string, inputs bridge.Map, entries []*catalog.Entry) (view, error) {
	words, joined := map[string]bool{}, false
	for _, w := range wordPattern().FindAllString(source, -1) {
		words[w], joined = true, joined || strings.Contains(w, "_")
	}
	flat := map[string]string{} // names such as notes_grep and notes__grep that match no tool, with the tool that they mean
	byPath := map[string][]*catalog.Entry{}
	var paths []string
	namespaces := map[string][]string{} // identifier → namespaces that map to it
	for _, e := range entries {
		ns := identifier(e.Tool.ID.Namespace)
		if !slices.Contains(namespaces[ns], e.Tool.ID.Namespace) {
			namespaces[ns] = append(namespaces[ns], e.Tool.ID.Namespace)
		}
		if joined {
			name := identifier(e.Tool.ID.Name)
			for _, spelled := range []string{ns + "_" + name, ns + "__" + name} {
				if words[spelled] {
					flat[spelled] = fmt.Sprintf("the tool %s is called tools.%s.%s here", e.ID, ns, name)
				}
			}
		}
		if !words[ns] {
			continue
		}
		path := ns + "." + identifier(e.Tool.ID.Name)
		if byPath[path] == nil {
			paths = append(paths, path)
		}
		byPath[path] = append(byPath[path], e)
	}
	for _, e := range unlistedSubcommands(source, byPath) {
		path := identifier(e.Tool.ID.Namespace) + "." + identifier(e.Tool.ID.Name)
		paths, byPath[path] = append(paths, path), []*catalog.Entry{e}
	}
	slices.Sort(paths)
	standing := reserved.Words(language)
	taken := maps.Clone(standing)
	maps.Copy(taken, importedNames(language, source))
	for _, input := range inputs {
		if why, ok := taken[input.Key]; ok {
			return view{}, toolroom.Errorf(toolroom.CodeInvalidArguments, "the input %q has the name of %s", input.Key, why).
				WithHint("give the input another name")
		}
		taken[input.Key] = inputReason
	}
	var v view
	for _, name := range slices.Sorted(maps.Keys(flat)) {
		if taken[name] == "" {
			v.withhold(name, flat[name])
		}
	}
	left := map[string]bool{}
	for _, path := range paths {
		ns, name, _ := strings.Cut(path, ".")
		if len(byPath[path]) > 1 { // two tools whose names map to the same identifier
			ids := make([]string, len(byPath[path]))
			for i, e := range byPath[path] {
				ids[i] = e.ID
			}
			v.withhold(path, fmt.Sprintf("%s could be any of %s: write call_tool(%q, ...)", path, strings.Join(ids, ", "), ids[0]))
			continue
		}
		tool := newBridgeTool(byPath[path][0], ns, name)
		switch why, collides := taken[ns]; {
		case !collides:
			tool.Globals = append(tool.Globals, []string{ns, name})
		case why == inputReason:
			v.hiddenNamespace = ns
		case standing[ns] == "" && !left[ns]: // else the name keeps its meaning
			left[ns] = true
			v.withhold(ns, fmt.Sprintf("%s is also %s: write tools.%s", ns, why, ns))
		}
		v.tools, v.entries = append(v.tools, tool), append(v.entries, byPath[path][0])
	}
	return v, nil
}

// inputReason says why the name of an input cannot be a namespace.
const inputReason = "an input of this program"

// withhold records that a name is omitted, and why.
func (v *view) withhold(name, why string) {
	v.withheld = append(v.withheld, bridge.Member{Key: name, Value: why})
}

func newBridgeTool(e *catalog.Entry, ns, name string) bridge.Tool {
	t := bridge.Tool{ID: e.ID, Path: []string{ns, name}, Kind: string(e.Tool.Source), Doc: catalog.Shorten(e.Tool.Description, 120)}
	t.Parameters, t.Open = parameters(e.Tool.InputSchema)
	switch e.Tool.Source {
	case toolroom.SourceMCP:
		t.Globals = [][]string{{"mcp", ns, name}}
	case toolroom.SourceCLI:
		t.Globals = [][]string{{"cli", ns, name}}
	}
	return t
}

func identifier(name string) string { return reserved.Identifier(name) }

var pythonImport = pattern.Lazy(`(?m)^[ \t]*(?:from[ \t]+[\w.]+[ \t]+)?import[ \t]+([^#\n]+)`)

// importedNames returns the names that a Python program imports.
func importedNames(language, source string) map[string]string {
	names := map[string]string{}
	if language != "python" {
		return names
	}
	for _, m := range pythonImport().FindAllStringSubmatch(source, -1) {
		for clause := range strings.SplitSeq(strings.Trim(m[1], "() \t\r"), ",") {
			fields := strings.Fields(clause)
			if len(fields) == 0 {
				continue
			}
			name, _, _ := strings.Cut(fields[len(fields)-1], ".")
			names[name] = "a module that this program imports"
		}
	}
	return names
}
