package api

import (
	"context"
	"slices"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/nearest"
	"github.com/toolroom/toolroom/internal/server/auth"
	"github.com/toolroom/toolroom/internal/token"
)

// Admin is what operators change over HTTP besides policy. What is nil is not offered.
type Admin struct {
	Tokens token.Store
	// Operator changes the rest; nil offers nothing of it.
	Operator Operator
	// CheckSet returns an error if there is no such tool set.
	CheckSet func(name string) error
	// CheckEnvironment returns an error if there is no such environment.
	CheckEnvironment func(name string) error
}

// Reloaded is the outcome of reading the config again.
type Reloaded struct {
	File    string   `json:"file"`
	Changed []string `json:"changed" doc:"keys whose new values count now"`
	Restart []string `json:"restart" doc:"keys whose new values count after a restart of the server"`
}

// TokenRequest describes a new token.
type TokenRequest struct {
	Name        string   `json:"name" doc:"for people"`
	Subject     string   `json:"subject,omitempty" doc:"the identity of its bearer; the default is the name"`
	Groups      []string `json:"groups,omitempty"`
	Agent       string   `json:"agent,omitempty" doc:"the one agent that may use it"`
	Provider    string   `json:"provider,omitempty" doc:"the one model provider that may use it"`
	Skill       string   `json:"skill,omitempty" doc:"the one skill that may use it"`
	Set         string   `json:"set,omitempty" doc:"the tool set that it is bound to"`
	Environment string   `json:"environment,omitempty" doc:"the environment whose released versions serve its calls; it can choose no other"`
	Expires     string   `json:"expires,omitempty" doc:"lifetime, such as 720h; the default is for ever"`
}

// NewToken is a token with its text, which is shown only once.
type NewToken struct {
	token.Token
	Plaintext string `json:"token"`
}

type tokenPage struct {
	Tokens []*token.Token `json:"tokens"`
	// Next is the cursor of the next page; empty at the end of the list.
	Next string `json:"next,omitempty"`
}

type nameInput struct {
	Name string `path:"name" doc:"name of the source"`
}

// requireOperator returns an error unless the caller is an operator.
func requireOperator(ctx context.Context, what string, offered bool) error {
	if !offered {
		return unsupportedError("this server does not offer to " + what)
	}
	if !auth.IsOperator(auth.Identity(ctx)) {
		return toolroom.Errorf(toolroom.CodeDenied, "only an operator may %s", what).WithHint("send a token of the group %s", auth.Operators)
	}
	return nil
}

func (s *Server) listTokens(ctx context.Context, in *Paging) (*jsonOutput[tokenPage], error) {
	if err := requireOperator(ctx, "see the tokens", s.o.Admin.Tokens != nil); err != nil {
		return nil, err
	}
	all, err := s.o.Admin.Tokens.Tokens(ctx)
	if err != nil {
		return nil, err
	}
	all = slices.Clone(all)
	slices.Reverse(all)
	list, next, err := Page(all, *in, func(t *token.Token) string { return t.ID })
	return &jsonOutput[tokenPage]{tokenPage{Tokens: list, Next: next}}, err
}

func (s *Server) createToken(ctx context.Context, in *Exchange) (*jsonOutput[NewToken], error) {
	if err := requireOperator(ctx, "create tokens", s.o.Admin.Tokens != nil); err != nil {
		return nil, err
	}
	body, err := readJSON[TokenRequest](in)
	if err != nil {
		return nil, err
	}
	o := token.Options{Name: body.Name, Subject: body.Subject, Groups: body.Groups, Agent: body.Agent, Provider: body.Provider, Skill: body.Skill, Set: body.Set, Environment: body.Environment}
	if s.o.Admin.CheckSet != nil {
		if err := s.o.Admin.CheckSet(body.Set); err != nil {
			return nil, err
		}
	}
	if s.o.Admin.CheckEnvironment != nil {
		if err := s.o.Admin.CheckEnvironment(body.Environment); err != nil {
			return nil, err
		}
	}
	if body.Expires != "" {
		if o.TTL, err = time.ParseDuration(body.Expires); err != nil || o.TTL <= 0 {
			return nil, toolroom.Errorf(toolroom.CodeInvalidArguments, "expires %q is not a duration", body.Expires).WithHint("for example 720h")
		}
	}
	text, t, err := token.Create(ctx, s.o.Admin.Tokens, o)
	if err := s.recordChange(ctx, "tokens.create", body, err); err != nil {
		return nil, err
	}
	return &jsonOutput[NewToken]{NewToken{t, text}}, nil
}

func (s *Server) revokeToken(ctx context.Context, in *idInput) (*struct{}, error) {
	if err := requireOperator(ctx, "revoke tokens", s.o.Admin.Tokens != nil); err != nil {
		return nil, err
	}
	all, err := s.o.Admin.Tokens.Tokens(ctx)
	if err != nil {
		return nil, err
	}
	id, err := nearest.ID(in.ID, idsOf(all, func(t *token.Token) string { return t.ID }))
	if err == nil {
		err = s.o.Admin.Tokens.RevokeToken(ctx, id, time.Now())
	}
	return nil, s.recordChange(ctx, "tokens.revoke", named{Name: id}, err)
}
