package api

import (
	"cmp"
	"context"
	"encoding/json"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/policy"
	"github.com/toolroom/toolroom/internal/server/auth"
	"github.com/toolroom/toolroom/source"
)

// Source is the state of a source, for people.
type Source struct {
	Name string              `json:"name"`
	Kind toolroom.SourceKind `json:"kind"`
	// State is a word: ready, idle, connecting, backing off, waiting for
	// authorisation, broken, draining, failing, disabled. Reason has the cause and the remedy.
	State  string `json:"state"`
	Reason string `json:"reason,omitempty"`
	// Listed reports whether its tools are known, and Tools how many there are.
	Listed bool `json:"listed"`
	Tools  int  `json:"tools"`
	// Stale reports that the tools are those of the last successful list.
	Stale bool `json:"stale,omitempty"`
	// Process is the running program of the source.
	Process *source.Process `json:"process,omitempty"`
	// Output is the end of what its program has written to stderr, also of one that has
	// ended.
	Output string `json:"output,omitempty"`
	// Sandbox is where its program runs, for example "process, standard"; "none" is with the
	// rights of the server. It is empty if the source has no program.
	Sandbox string `json:"sandbox,omitempty"`
	// Error is the error of the last attempt to list the tools, if it failed.
	Error string `json:"error,omitempty"`
}

type sourceList struct {
	Sources []Source `json:"sources"`
	// Next is the cursor of the next page; empty at the end of the list.
	Next string `json:"next,omitempty"`
}

type explainInput struct {
	Tool     string `query:"tool" required:"true" doc:"name of the tool, in any accepted spelling"`
	Agent    string `query:"agent" doc:"explain for a caller that acts as this agent"`
	Provider string `query:"provider" doc:"explain for a caller that uses this model provider"`
	Skill    string `query:"skill" doc:"explain for a caller that acts within this skill"`
	// Arguments is a JSON object. If empty, rules that depend on arguments are left out.
	Arguments string `query:"arguments" maxLength:"100000" doc:"arguments of the call, a JSON object; if omitted, rules that depend on arguments are left out"`
}

// Explanation is the decision of policy about one caller and one tool, with its reasons.
type Explanation struct {
	Tool     string            `json:"tool"`
	Identity toolroom.Identity `json:"identity"`
	Decision policy.Decision   `json:"decision"`
	// Effects are the predicted effects of the call, if arguments were passed.
	Effects []toolroom.Effect `json:"effects,omitempty"`
}

func (s *Server) listSources(ctx context.Context, in *Paging) (*jsonOutput[sourceList], error) {
	if s.o.Sources == nil {
		return nil, unsupportedError("this server does not list its sources")
	}
	if who := auth.Identity(ctx); !auth.IsOperator(who) && !hasPart(who, partSources) {
		// Reasons and errors contain commands, addresses and paths.
		return nil, toolroom.Errorf(toolroom.CodeDenied, "only an operator may see the sources").
			WithHint("list the tools: GET %s/tools", Prefix)
	}
	list, next, err := Page(s.allSources(), *in, func(s Source) string { return s.Name })
	return &jsonOutput[sourceList]{sourceList{Sources: list, Next: next}}, err
}

func (s *Server) explainPolicy(ctx context.Context, in *explainInput) (*jsonOutput[Explanation], error) {
	if s.o.Explain == nil {
		return nil, unsupportedError("this server has no policy to explain")
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
	who.Environment = cmp.Or(who.Environment, auth.Environment(ctx))
	explained, err := s.o.Explain(ctx, in.Tool, who, json.RawMessage(in.Arguments))
	if err != nil {
		return nil, err
	}
	return &jsonOutput[Explanation]{Explanation{Tool: in.Tool, Identity: who, Decision: explained.Decision, Effects: explained.Effects}}, nil
}

// actAs sets a field of an identity to name. Only an operator may replace a value
// that its token has set.
func actAs(field *string, name string, who toolroom.Identity) error {
	if name == "" || name == *field {
		return nil
	}
	if *field != "" && !auth.IsOperator(who) {
		return toolroom.Errorf(toolroom.CodeDenied, "your token is limited to %s", *field)
	}
	*field = name
	return nil
}
