package code

import (
	"slices"
	"strings"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/catalog"
	"github.com/toolroom/toolroom/internal/nearest"
	"github.com/toolroom/toolroom/internal/pattern"
	"github.com/toolroom/toolroom/source"
)

// subcommandCall matches a call such as git.rev_parse( or cli("git").version(
var subcommandCall = pattern.Lazy(`([\pL_$][\pL\pN_$-]*)(?:["'][)\]])?\.([\pL_$][\pL\pN_$]*)\(`)

// refinerFor returns the command-line source that can run the sub-command name although it
// has no tool for it. known are the source's tools. If the name looks like a misspelling of
// one of them, refinerFor returns false.
func refinerFor(name string, known []*catalog.Entry) (source.Refiner, bool) {
	isTypo := func(e *catalog.Entry) bool { return len(name) >= 4 && nearest.IsTypo(name, e.Tool.ID.Name) }
	if len(known) == 0 || slices.ContainsFunc(known, isTypo) {
		return nil, false
	}
	return source.As[source.Refiner](known[0].Source)
}

// unlistedSubcommands returns entries for the sub-commands in a text that a command-line
// source can run although it has no tools for them. byPath holds the tools that the text
// mentions.
func unlistedSubcommands(text string, byPath map[string][]*catalog.Entry) []*catalog.Entry {
	programs := map[string][]*catalog.Entry{} // by namespace
	for _, list := range byPath {
		if e := list[0]; e.Tool.Source == toolroom.SourceCLI {
			ns := identifier(e.Tool.ID.Namespace)
			programs[ns] = append(programs[ns], e)
		}
	}
	if len(programs) == 0 {
		return nil
	}
	var found []*catalog.Entry
	seen := map[string]bool{}
	for _, m := range subcommandCall().FindAllStringSubmatch(text, -1) {
		namespace := identifier(m[1])
		known, path := programs[namespace], namespace+"."+m[2]
		if known == nil || byPath[path] != nil || seen[path] {
			continue
		}
		seen[path] = true
		commander, ok := refinerFor(m[2], known)
		if !ok {
			continue
		}
		if _, _, ok := commander.Subcommand(m[2], nil); ok {
			id := toolroom.ID{Namespace: known[0].Tool.ID.Namespace, Name: m[2]}
			found = append(found, &catalog.Entry{ID: id.String(), Tool: toolroom.Tool{ID: id, Source: toolroom.SourceCLI}})
		}
	}
	return found
}

// asProgramCall converts a call of a sub-command that has no tool to a call of the
// command-line program. It returns other calls unchanged.
func (h *handler) asProgramCall(call toolroom.Call) toolroom.Call {
	_, err := h.o.Catalog.Resolve(call.Tool, nil)
	if toolroom.CodeOf(err) != toolroom.CodeToolNotFound {
		return call
	}
	namespace, name, _ := strings.Cut(call.Tool, ":")
	visible := h.catalogView().Visible
	known := h.o.Catalog.All(func(e *catalog.Entry) bool {
		id := e.Tool.ID
		return e.Tool.Source == toolroom.SourceCLI && (id.Namespace == namespace || identifier(id.Namespace) == namespace) && visible(e)
	})
	commander, ok := refinerFor(name, known)
	if !ok {
		return call
	}
	tool, arguments, ok := commander.Subcommand(name, call.Arguments)
	id := toolroom.ID{Namespace: known[0].Tool.ID.Namespace, Name: tool}.String()
	if ok && slices.ContainsFunc(known, func(e *catalog.Entry) bool { return e.ID == id }) {
		call.Tool, call.Arguments = id, arguments
	}
	return call
}
