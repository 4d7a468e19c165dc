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

// The name of the search tool of a single source (Exposure.PerSource). An agent that ignores
// one general search tool does use one with the name of the service that it needs.
const (
	sourceSearchPrefix = "search_"
	sourceSearchSuffix = "_tools"
)

func sourceSearchName(namespace string) string {
	return sourceSearchPrefix + strings.ReplaceAll(namespace, ".", "_") + sourceSearchSuffix
}

// sourceSearchTargets returns the namespaces that have a search tool, by the tool's name, with
// the number of tools that a caller sees in each. Built-in tools do not count.
func (s *Server) sourceSearchTargets(who toolroom.Identity) map[string]namespaceCount {
	if !s.expose.forCaller(who).PerSource {
		return nil
	}
	visible := s.visibleTo(who)
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

// sourceSearchDefinitions returns the search tools of single sources that a caller sees, sorted
// by name.
func (s *Server) sourceSearchDefinitions(who toolroom.Identity) []*listedTool {
	named := s.sourceSearchTargets(who)
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

// sourceSearchNamespace returns the namespace whose search tool has this name, or false if
// there is none.
func (s *Server) sourceSearchNamespace(who toolroom.Identity, name string) (string, bool) {
	if !strings.HasPrefix(name, sourceSearchPrefix) || !strings.HasSuffix(name, sourceSearchSuffix) {
		return "", false
	}
	of, ok := s.sourceSearchTargets(who)[name]
	return of.namespace, ok
}

func (s *Server) searchSource(req *request, namespace string) (*result, error) {
	var in struct {
		Query *string `json:"query"`
	}
	if err := jsonx.Unmarshal(req.Arguments, &in, jsonx.Limits{Bytes: maxBody}); err != nil || in.Query == nil {
		return failedResult(req, toolroom.Errorf(toolroom.CodeInvalidArguments, "%s requires a query", req.Name).WithHint(`{"query": "what you want to do"}`)), nil
	}
	s.o.Ready(req.ctx)
	return structuredResult(req, s.o.Runner.Catalog.Search(*in.Query, catalog.SearchOptions{
		Namespace: namespace, Form: s.searchForm(req.who), View: s.modelView(req),
		Caller: &catalog.Caller{Identity: req.who, Session: req.session()},
	}))
}

// searchForm returns the form of the ready calls in search results.
func (s *Server) searchForm(who toolroom.Identity) toolroom.Form {
	if s.expose.forCaller(who).Code {
		return toolroom.FormCode
	}
	return toolroom.FormMCPSearch
}
