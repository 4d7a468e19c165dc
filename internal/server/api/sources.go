package api

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/policy"
	"github.com/toolroom/toolroom/internal/server/auth"
	"github.com/toolroom/toolroom/source"
)

// Source is how a source is, for people.
type Source struct {
	Name string              `json:"name"`
	Kind toolroom.SourceKind `json:"kind"`
	// State is a word: ready, idle, connecting, backing off, waiting for
	// authorisation, broken, draining, failing. Reason says why, and what to do.
	State  string `json:"state"`
	Reason string `json:"reason,omitempty"`
	// Listed says that its tools are known, and Tools how many there are.
	Listed bool `json:"listed"`
	Tools  int  `json:"tools"`
	// Stale says that the tools are those of the last list that came.
	Stale bool `json:"stale,omitempty"`
	// Process is the program that runs for the source.
	Process *source.Process `json:"process,omitempty"`
	// Error is why the last attempt to list the tools failed.
	Error string `json:"error,omitempty"`
}

type sourcesOutput struct {
	Body sourceList
}

type sourceList struct {
	Sources []Source `json:"sources"`
}

type explainInput struct {
	Tool     string `query:"tool" required:"true" doc:"any accepted spelling"`
	Agent    string `query:"agent" doc:"ask for a caller that acts as this agent"`
	Provider string `query:"provider" doc:"ask for a caller that uses this model provider"`
	Skill    string `query:"skill" doc:"ask for a caller that acts within this skill"`
	// Arguments is a JSON object; without it, what depends on them is left out.
	Arguments string `query:"arguments" maxLength:"100000" doc:"arguments of the call, a JSON object; without them, what depends on them is left out"`
}

type explainOutput struct {
	Body Explanation
}

// Explanation tells what policy says to one caller and one tool, and why.
type Explanation struct {
	Tool     string            `json:"tool"`
	Identity toolroom.Identity `json:"identity"`
	Decision policy.Decision   `json:"decision"`
	// Effects are what the call would do, where arguments were given.
	Effects []toolroom.Effect `json:"effects,omitempty"`
}

func (s *Server) routeSources() {
	register(s, huma.Operation{
		OperationID: "list-sources", Method: http.MethodGet, Path: "/sources", Tags: []string{"sources"},
		Summary: "List the sources and how they are; operators only",
	}, s.listSources)
	register(s, huma.Operation{
		OperationID: "explain-policy", Method: http.MethodGet, Path: "/policy/explain", Tags: []string{"policy"},
		Summary: "Why a tool is allowed, denied or asked about",
	}, s.explainPolicy)
}

func (s *Server) listSources(ctx context.Context, _ *struct{}) (*sourcesOutput, error) {
	if s.o.Sources == nil {
		return nil, unsupported("this server does not tell of its sources")
	}
	if who := auth.Identity(ctx); !auth.IsOperator(who) {
		// Reasons and errors name commands, addresses and paths.
		return nil, toolroom.Errorf(toolroom.CodeDenied, "only an operator sees the sources").
			WithHint("list the tools: GET %s/tools", Prefix)
	}
	return &sourcesOutput{Body: sourceList{Sources: append([]Source{}, s.o.Sources()...)}}, nil
}

func (s *Server) explainPolicy(ctx context.Context, in *explainInput) (*explainOutput, error) {
	if s.o.Explain == nil {
		return nil, unsupported("this server has no policy to explain")
	}
	who := auth.Identity(ctx)
	if err := actAs(&who.Agent, in.Agent, who); err != nil {
		return nil, err
	}
	if err := actAs(&who.Provider, in.Provider, who); err != nil {
		return nil, err
	}
	if err := actAs(&who.Skill, in.Skill, who); err != nil {
		return nil, err
	}
	explained, err := s.o.Explain(ctx, in.Tool, who, json.RawMessage(in.Arguments))
	if err != nil {
		return nil, err
	}
	return &explainOutput{Body: Explanation{Tool: in.Tool, Identity: who, Decision: explained.Decision, Effects: explained.Effects}}, nil
}

// actAs puts a name into a field of an identity. What a token says, only an
// operator may ask to be otherwise.
func actAs(field *string, name string, who toolroom.Identity) error {
	if name == "" || name == *field {
		return nil
	}
	if *field != "" && !auth.IsOperator(who) {
		return toolroom.Errorf(toolroom.CodeDenied, "your token acts as %s", *field)
	}
	*field = name
	return nil
}
