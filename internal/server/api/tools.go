package api

import (
	"context"
	"io"

	"github.com/danielgtaylor/huma/v2"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/catalog"
	"github.com/toolroom/toolroom/internal/code"
	"github.com/toolroom/toolroom/internal/server/auth"
)

type listInput struct {
	Cursor    string `query:"cursor" doc:"next of the previous page; refused if the tools have changed since"`
	Limit     int    `query:"limit" minimum:"0" doc:"page size (default 100, at most 1,000)"`
	Namespace string `query:"namespace"`
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

type searchInput struct {
	Query     string `query:"q" required:"true" maxLength:"2000"`
	Limit     int    `query:"limit" minimum:"0" doc:"maximum number of hits (default 10, at most 100)"`
	Namespace string `query:"namespace"`
	Form      string `query:"form" enum:"cli,mcp,code" default:"cli"`
	Session   string `query:"session" maxLength:"200" doc:"session of the calls that follow, from which searches learn"`
}

func (s *Server) listTools(ctx context.Context, in *listInput) (*jsonOutput[toolPage], error) {
	page, err := s.o.Runner.Catalog.List(catalog.ListOptions{
		Cursor: in.Cursor, Limit: in.Limit, Namespace: in.Namespace,
		View: s.o.Runner.View(auth.Identity(ctx), auth.Environment(ctx)),
	})
	if err != nil {
		return nil, err
	}
	out := &jsonOutput[toolPage]{toolPage{Tools: make([]*toolroom.Description, 0, len(page.Entries)), Next: page.Next}}
	for _, e := range page.Entries {
		d, err := s.o.Runner.Catalog.Describe(ctx, e, toolroom.LevelSummary, toolroom.FormCLI)
		if err != nil {
			return nil, err
		}
		out.Body.Tools = append(out.Body.Tools, d)
	}
	return out, nil
}

func (s *Server) describeTool(ctx context.Context, in *describeInput) (*jsonOutput[*toolroom.Description], error) {
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
	return &jsonOutput[*toolroom.Description]{d}, nil
}

func (s *Server) searchTools(ctx context.Context, in *searchInput) (*jsonOutput[toolroom.Found], error) {
	return &jsonOutput[toolroom.Found]{s.o.Runner.Catalog.Search(in.Query, catalog.SearchOptions{
		Limit: in.Limit, Namespace: in.Namespace, Form: toolroom.Form(in.Form),
		View:   s.o.Runner.View(auth.Identity(ctx), auth.Environment(ctx)),
		Caller: &catalog.Caller{Identity: auth.Identity(ctx), Session: in.Session},
	})}, nil
}

type stubsInput struct {
	Exchange
	Language string   `query:"language" enum:"ts,python,python-await" default:"ts"`
	Pattern  []string `query:"pattern,explode" doc:"a namespace, or an id in which * matches anything; may be repeated"`
}

func (s *Server) stubs(ctx context.Context, in *stubsInput) (*raw, error) {
	text, err := code.Stubs(in.Language, s.o.Runner.Catalog.Shown(s.o.Runner.View(auth.Identity(ctx), auth.Environment(ctx))), in.Pattern)
	if err != nil {
		return nil, err
	}
	return &raw{Body: func(huma.Context) {
		in.w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_, _ = io.WriteString(in.w, text) // an error means that the client has gone
	}}, nil
}
