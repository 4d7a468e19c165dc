package code

import (
	"fmt"
	"slices"
	"strings"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/bridge"
	"github.com/toolroom/toolroom/internal/catalog"
	"github.com/toolroom/toolroom/internal/nearest"
	"github.com/toolroom/toolroom/internal/pattern"
)

var (
	// literalID matches an id in call_tool("github:create_issue", …).
	literalID = pattern.Lazy(`\b(call_tool|run)\(\s*(?:"([^"\\\n]+)"|'([^'\\\n]+)')`)
	// rootedName matches a root and a namespace, as in tools.github.create_issue.
	rootedName = pattern.Lazy(`\b(tools|mcp|cli)\.([\pL_][\pL\pN_]*)\.`)
	// rootCall matches the call tools.github_create_issue(, which names no namespace.
	rootCall = pattern.Lazy(`\b(tools|mcp)\.([\pL_][\pL\pN_]*)\(`)
)

const (
	// maxUnknown is the maximum number of mistakes that are reported for one program.
	maxUnknown = 20
	// maxLookups is the maximum number of different names that are looked up for one program,
	// each of which takes up to some milliseconds. A text may have hundreds of thousands.
	maxLookups = 500
)

// findUnknown returns the names in a program that match no tool, with messages that suggest
// others. Tools that policy hides are not among them: the call itself is denied.
func (h *handler) findUnknown(source string, entries []*catalog.Entry) bridge.Map {
	var found bridge.Map
	looked := map[string]bool{}
	add := func(name string, why func() string) {
		if looked[name] || len(looked) == maxLookups || len(found) == maxUnknown {
			return
		}
		looked[name] = true
		if reason := why(); reason != "" {
			found = append(found, bridge.Member{Key: name, Value: reason})
		}
	}
	for _, m := range literalID().FindAllStringSubmatch(source, -1) {
		if h.session != nil && m[1] == "run" {
			continue // an earlier program may have redefined it
		}
		add(m[2]+m[3], func() string { return h.explainUnknownID(m[2]+m[3], entries) })
	}
	for _, used := range usedPrograms(source) {
		if err := h.programErrors[used.name]; err != nil && (used.called || used.subcommand) {
			add("cli."+used.name, func() string {
				return fmt.Sprintf("there is no cli.%s: %s", used.name, toolroom.AsError(err).Message) + h.suggestProgram(used.name, entries)
			})
		}
	}
	for _, m := range rootedName().FindAllStringSubmatch(source, -1) {
		add(m[1]+"."+m[2], func() string { return h.explainUnknownNamespace(m[1], m[2], entries) })
	}
	for _, m := range rootCall().FindAllStringSubmatch(source, -1) {
		add(m[1]+"."+m[2], func() string { return h.explainNamespaceCall(m[1], m[2], entries) })
	}
	return found
}

// suggestProgram returns the end of a message that suggests a command-line program with a
// similar name, or "".
func (h *handler) suggestProgram(name string, entries []*catalog.Entry) string {
	var names []string
	for _, e := range entries {
		if ns := identifier(e.Tool.ID.Namespace); e.Tool.Source == toolroom.SourceCLI && !slices.Contains(names, ns) {
			names = append(names, ns)
		}
	}
	near, ok := nearest.Of(name, names)
	if !ok {
		return ""
	}
	return "; did you mean cli." + near + "?"
}

// explainUnknownID returns the message for an id that no tool has, or "" if the call itself
// explains it.
func (h *handler) explainUnknownID(id string, entries []*catalog.Entry) string {
	_, err := h.o.Runner.Lookup(&toolroom.Call{Tool: id, Identity: h.request.Identity, Environment: h.request.Environment})
	if toolroom.CodeOf(err) != toolroom.CodeToolNotFound || h.asProgramCall(toolroom.Call{Tool: id}).Tool != id {
		return ""
	}
	ids := make([]string, len(entries))
	for i, e := range entries {
		ids[i] = e.ID
	}
	if _, version, pinned := strings.Cut(id, "@"); pinned && version != "" {
		return "" // the call says which versions there are
	}
	message := fmt.Sprintf("there is no tool %q", id)
	if near, ok := nearest.Of(id, ids); ok {
		return message + h.didYouMean(entries[slices.Index(ids, near)])
	}
	if hits := h.o.Catalog.Search(id, catalog.SearchOptions{Limit: 1, View: h.catalogView(), Form: h.form()}).Hits; len(hits) > 0 {
		return message + ": did you mean " + hits[0].Call + "?"
	}
	return message + ": search_tools(\"…\") finds the available tools"
}

func (h *handler) didYouMean(e *catalog.Entry) string {
	return ": did you mean " + catalog.ReadyCall(e, h.form()) + "?"
}

// explainNamespaceCall returns the message for the call tools.NAME(…), which names no tool.
// The namespace of a command-line program may be called: then it returns "".
func (h *handler) explainNamespaceCall(root, name string, entries []*catalog.Entry) string {
	for _, e := range entries {
		if id := e.Tool.ID; name == identifier(id.Namespace)+"_"+identifier(id.Name) || name == identifier(id.Namespace)+"__"+identifier(id.Name) {
			return fmt.Sprintf("there is no %s.%s", root, name) + h.didYouMean(e)
		}
	}
	var names []string
	for _, e := range entries {
		if identifier(e.Tool.ID.Namespace) != name {
			continue
		}
		if e.Tool.Source == toolroom.SourceCLI {
			return ""
		}
		names = append(names, identifier(e.Tool.ID.Name))
	}
	if len(names) > 0 {
		return fmt.Sprintf("%s.%s is a namespace: call one of its tools: %s", root, name, firstNames(names))
	}
	return h.explainUnknownNamespace(root, name, entries)
}

// explainUnknownNamespace returns the message for tools.NAMESPACE if there is no such
// namespace, else "".
func (h *handler) explainUnknownNamespace(root, namespace string, entries []*catalog.Entry) string {
	for n := range h.o.Catalog.Namespaces(nil) {
		if identifier(n) == namespace {
			return ""
		}
	}
	var names []string
	for _, e := range entries {
		ns := identifier(e.Tool.ID.Namespace)
		fits := root == "tools" || root == "mcp" && e.Tool.Source == toolroom.SourceMCP || root == "cli" && e.Tool.Source == toolroom.SourceCLI
		if fits && !slices.Contains(names, ns) {
			names = append(names, ns)
		}
	}
	message := fmt.Sprintf("there is no %s.%s", root, namespace)
	if near, ok := nearest.Of(namespace, names); ok {
		return message + ": did you mean " + root + "." + near + "?"
	}
	return message + ": " + root + " has " + firstNames(names)
}

// firstNames lists the names, sorted, at most maxUnknown of them.
func firstNames(names []string) string {
	slices.Sort(names)
	if len(names) > maxUnknown {
		names = append(names[:maxUnknown], "…")
	}
	return strings.Join(names, ", ")
}
