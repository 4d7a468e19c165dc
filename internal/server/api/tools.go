package api

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/catalog"
	"github.com/toolroom/toolroom/internal/server/auth"
)

type listInput struct {
	Cursor    string `query:"cursor" doc:"next of the previous page; refused if the tools have changed since"`
	Limit     int    `query:"limit" minimum:"0" doc:"page size (default 100, at most 1,000)"`
	Namespace string `query:"namespace"`
}

type listOutput struct {
	Body toolPage
}

type toolPage struct {
	Tools []*toolroom.Description `json:"tools"`
	// Next is the cursor of the next page; empty at the end of the list.
	Next string `json:"next,omitempty"`
}

type describeInput struct {
	ID    string `path:"id" doc:"name of the tool, in any accepted spelling; write a slash as %2F"`
	Level string `query:"level" enum:"summary,schema,full" default:"schema"`
	Form  string `query:"form" enum:"cli,mcp,code" default:"cli" doc:"surface for which the example call is written"`
}

type describeOutput struct {
	Body *toolroom.Description
}

type searchInput struct {
	Query     string `query:"q" required:"true" maxLength:"2000"`
	Limit     int    `query:"limit" minimum:"0" doc:"maximum number of hits (default 10, at most 100)"`
	Namespace string `query:"namespace"`
	Form      string `query:"form" enum:"cli,mcp,code" default:"cli"`
	Session   string `query:"session" maxLength:"200" doc:"session of the calls that follow, from which searches learn"`
}

type searchOutput struct {
	Body toolroom.Found
}

func (s *Server) routeTools() {
	register(s, huma.Operation{
		OperationID: "list-tools", Method: http.MethodGet, Path: "/tools", Tags: []string{"tools"},
		Summary: "List the tools that the caller may call",
	}, s.listTools)
	register(s, huma.Operation{
		OperationID: "describe-tool", Method: http.MethodGet, Path: "/tools/{id}", Tags: []string{"tools"},
		Summary: "Describe a tool",
	}, s.describeTool)
	register(s, huma.Operation{
		OperationID: "search-tools", Method: http.MethodGet, Path: "/search", Tags: []string{"tools"},
		Summary: "Search for tools by what they do",
	}, s.searchTools)
}

func (s *Server) listTools(ctx context.Context, in *listInput) (*listOutput, error) {
	page, err := s.o.Runner.Catalog.List(catalog.ListOptions{
		Cursor: in.Cursor, Limit: in.Limit, Namespace: in.Namespace,
		View: s.o.Runner.View(auth.Identity(ctx), auth.Environment(ctx)),
	})
	if err != nil {
		return nil, err
	}
	out := &listOutput{Body: toolPage{Tools: make([]*toolroom.Description, 0, len(page.Entries)), Next: page.Next}}
	for _, e := range page.Entries {
		d, err := s.o.Runner.Catalog.Describe(ctx, e, toolroom.LevelSummary, toolroom.FormCLI)
		if err != nil {
			return nil, err
		}
		out.Body.Tools = append(out.Body.Tools, d)
	}
	return out, nil
}

func (s *Server) describeTool(ctx context.Context, in *describeInput) (*describeOutput, error) {
	as := toolroom.Call{Tool: in.ID, Identity: auth.Identity(ctx), Environment: auth.Environment(ctx)}
	e, err := s.o.Runner.Find(ctx, &as)
	if err != nil {
		return nil, err
	}
	if !s.o.Runner.Allowed(as.Identity, e) {
		denied := toolroom.Errorf(toolroom.CodeDenied, "you may not call %s", e.Tool.ID)
		denied.Phase, denied.Tool = toolroom.PhasePolicy, e.Tool.ID.String()
		return nil, denied
	}
	d, err := s.o.Runner.Catalog.Describe(ctx, e, toolroom.Level(in.Level), toolroom.Form(in.Form))
	if err != nil {
		return nil, err
	}
	return &describeOutput{Body: d}, nil
}

func (s *Server) searchTools(ctx context.Context, in *searchInput) (*searchOutput, error) {
	return &searchOutput{Body: s.o.Runner.Catalog.Search(in.Query, catalog.SearchOptions{
		Limit: in.Limit, Namespace: in.Namespace, Form: toolroom.Form(in.Form),
		View:   s.o.Runner.View(auth.Identity(ctx), auth.Environment(ctx)),
		Caller: &catalog.Caller{Identity: auth.Identity(ctx), Session: in.Session},
	})}, nil
}
