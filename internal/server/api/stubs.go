package api

import (
	"context"
	"io"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/toolroom/toolroom/internal/code"
	"github.com/toolroom/toolroom/internal/server/auth"
)

type stubsInput struct {
	Exchange
	Language string   `query:"language" enum:"ts,python,python-await" default:"ts"`
	Pattern  []string `query:"pattern,explode" doc:"a namespace, or an id in which * matches anything; may be repeated"`
}

func (s *Server) routeStubs() {
	register(s, huma.Operation{
		OperationID: "stubs", Method: http.MethodGet, Path: "/stubs", Tags: []string{"tools"},
		Summary: "Get type declarations of the tools that the caller may call, for programs",
		Responses: map[string]*huma.Response{"200": {Description: "A .d.ts file or Python stubs", Content: map[string]*huma.MediaType{
			"text/plain": {Schema: &huma.Schema{Type: huma.TypeString}},
		}}},
	}, s.stubs)
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
