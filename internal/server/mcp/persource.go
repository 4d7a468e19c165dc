package mcp

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/catalog"
	"github.com/toolroom/toolroom/internal/jsonx"
)

// Search tools of single sources, on request: an agent that overlooks one
// general search tool does notice one that has the name of what it looks for.
const (
	sourceSearchPrefix = "search_"
	sourceSearchSuffix = "_tools"
)

func sourceSearchName(namespace string) string {
	return sourceSearchPrefix + strings.ReplaceAll(namespace, ".", "_") + sourceSearchSuffix
}

// searched are the namespaces that have a search tool of their own, by its name,
// with how many tools of each a caller sees. The builtin tools are no source.
func (s *Server) searched(who toolroom.Identity) map[string]namespaceCount {
	if !s.expose.of(who).PerSource {
		return nil
	}
	visible := s.visible(who)
	counts := s.o.Runner.Catalog.Namespaces(func(e *catalog.Entry) bool {
		return e.Tool.Source != toolroom.SourceBuiltin && visible(e)
	})
	named := map[string]namespaceCount{}
	for _, namespace := range slices.Sorted(maps.Keys(counts)) {
		name := sourceSearchName(namespace)
		if _, taken := named[name]; !taken && len(name) <= 64 && s.meta[name].definition == nil {
			named[name] = namespaceCount{namespace, counts[namespace]}
		}
	}
	return named
}

type namespaceCount struct {
	namespace string
	tools     int
}

// sourceSearches are the search tools that a caller sees, by name.
func (s *Server) sourceSearches(who toolroom.Identity) []*listedTool {
	named := s.searched(who)
	var tools []*listedTool
	for _, name := range slices.Sorted(maps.Keys(named)) {
		no, of := false, named[name]
		tools = append(tools, &listedTool{
			Name:        name,
			Annotations: &toolAnnotations{ReadOnlyHint: true, OpenWorldHint: &no},
			Description: fmt.Sprintf("Search the %d tools of %s by what you want to do.", of.tools, of.namespace),
			InputSchema: json.RawMessage(`{"type":"object","properties":{"query":{"type":"string"}},"required":["query"]}`),
		})
	}
	return tools
}

// sourceSearched is the namespace whose search tool has this name.
func (s *Server) sourceSearched(who toolroom.Identity, name string) (string, bool) {
	if !strings.HasPrefix(name, sourceSearchPrefix) || !strings.HasSuffix(name, sourceSearchSuffix) {
		return "", false
	}
	of, ok := s.searched(who)[name]
	return of.namespace, ok
}

func (s *Server) searchSource(req *request, namespace string) (*result, error) {
	var in struct {
		Query *string `json:"query"`
	}
	if err := jsonx.Unmarshal(req.Arguments, &in, jsonx.Limits{Bytes: maxBody}); err != nil || in.Query == nil {
		return failed(req, toolroom.Errorf(toolroom.CodeInvalidArguments, "%s requires a query", req.Name).WithHint(`{"query": "what you want to do"}`)), nil
	}
	s.o.Ready(req.ctx)
	return structured(req, s.o.Runner.Catalog.Search(*in.Query, catalog.SearchOptions{
		Namespace: namespace, Form: s.searchForm(req.who), View: s.modelView(req),
		Caller: &catalog.Caller{Identity: req.who, Session: req.session()},
	}))
}

// searchForm is the form of ready calls in what a search finds.
func (s *Server) searchForm(who toolroom.Identity) toolroom.Form {
	if s.expose.of(who).Code {
		return toolroom.FormCode
	}
	return toolroom.FormMCPSearch
}
