package api

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/release"
	"github.com/toolroom/toolroom/internal/server/auth"
)

// UploadRequest is code to push.
type UploadRequest struct {
	Files     map[string]string `json:"files" doc:"texts by relative file name"`
	File      string            `json:"file,omitempty" doc:"the file with the functions, if it is not plain"`
	Namespace string            `json:"namespace,omitempty" doc:"namespace of the tools (default fn)"`
	Message   string            `json:"message,omitempty" maxLength:"2000"`
	Base      *int              `json:"base,omitempty" doc:"the newest version that the author knows; a newer one is a conflict"`
}

// ReleaseRequest asks for a release.
type ReleaseRequest struct {
	Tool        string   `json:"tool" doc:"id of the tool, with @version for another one than the newest"`
	Environment string   `json:"environment,omitempty" doc:"default prod"`
	Weight      int      `json:"weight,omitempty" doc:"percentage of callers, beside the version that is served"`
	Callers     []string `json:"callers,omitempty" doc:"subjects, or group:NAME, that get the version"`
	Shadow      bool     `json:"shadow,omitempty" doc:"run the version beside the served one, and compare"`
	Ignore      []string `json:"ignore,omitempty" doc:"places that may differ between shadow and served version, such as /items/*/id"`
	Force       bool     `json:"force,omitempty" doc:"release even if a gate refuses"`
	Reason      string   `json:"reason,omitempty" maxLength:"2000"`
}

// RollbackRequest asks for a rollback.
type RollbackRequest struct {
	Tool        string `json:"tool"`
	Environment string `json:"environment,omitempty" doc:"default prod"`
	To          int    `json:"to,omitempty" doc:"version to go back to (default: the one before)"`
	All         bool   `json:"all,omitempty" doc:"undo all releases: the environment serves no version"`
	Reason      string `json:"reason,omitempty" maxLength:"2000"`
}

// PromoteRequest asks to release to one environment what another serves.
type PromoteRequest struct {
	Tool  string `json:"tool"`
	From  string `json:"from,omitempty" doc:"default test"`
	To    string `json:"to,omitempty" doc:"default prod"`
	Force bool   `json:"force,omitempty"`
}

// DeprecateRequest marks a version.
type DeprecateRequest struct {
	Tool   string `json:"tool" doc:"id with @version"`
	Reason string `json:"reason,omitempty" maxLength:"2000"`
	Undo   bool   `json:"undo,omitempty"`
}

// TryRequest is a call of a version, released or not; without arguments, a run of its cases.
type TryRequest struct {
	Tool      string          `json:"tool" doc:"id, with @version for another one than the newest"`
	Arguments json.RawMessage `json:"arguments,omitempty" doc:"a JSON object; if omitted, the saved cases are run"`
	TimeoutMS int64           `json:"timeout_ms,omitempty" minimum:"0"`
}

// CaseRequest is a case to save.
type CaseRequest struct {
	Tool      string          `json:"tool,omitempty" doc:"required without from"`
	Name      string          `json:"name,omitempty" doc:"required without from; a case of that name is replaced"`
	Arguments json.RawMessage `json:"arguments,omitempty"`
	Expect    json.RawMessage `json:"expect,omitempty" doc:"the exact value"`
	Schema    json.RawMessage `json:"schema,omitempty" doc:"a JSON Schema that the value must fit"`
	Assert    string          `json:"assert,omitempty" doc:"a condition in Expr on value and arguments"`
	Error     string          `json:"error,omitempty" doc:"the error code that the call must fail with"`
	Fakes     []release.Fake  `json:"fakes,omitempty" doc:"answers to the calls that the tool makes; without any, it makes real calls"`
	From      string          `json:"from,omitempty" doc:"records arguments, outcome and answers of this call; the other members count more"`
}

type toolQuery struct {
	Tool string `query:"tool" doc:"only this tool"`
	Paging
}

type versionedQuery struct {
	Namespace   string `query:"namespace" doc:"only the tools of this namespace, also those that a source defines"`
	Quarantined bool   `query:"quarantined" doc:"only tools of sources whose changed definition waits for a release"`
	Paging
}

type diffInput struct {
	Tool string `query:"tool" required:"true" doc:"id, with @version for another one than the offered or newest"`
	From int    `query:"from" minimum:"0" doc:"version to compare with (default: the served one, or the one before)"`
}

type shadowInput struct {
	Tool        string `query:"tool" required:"true" doc:"id, with @version for another one than the current shadow"`
	Environment string `query:"environment" doc:"default prod"`
}

type toolPath struct {
	ID string `path:"id" doc:"name of the tool, in any accepted spelling"`
}

type casePath struct {
	ID   string `path:"id" doc:"name of the tool, in any accepted spelling"`
	Name string `path:"name"`
}

// The lists have members, so that they can grow.
type (
	versionedTools struct {
		Tools []release.Summary `json:"tools"`
		Next  string            `json:"next,omitempty" doc:"cursor of the next page; empty at the end of the list"`
	}
	pushedVersions struct {
		Pushed []release.Pushed `json:"pushed"`
	}
	versionDiff struct {
		Tool string `json:"tool"`
		From int    `json:"from"`
		To   int    `json:"to"`
		Diff string `json:"diff"`
		// Breaks lists what breaks callers.
		Breaks []string `json:"breaks"`
	}
	releaseLog struct {
		Log  []release.Entry `json:"log"`
		Next string          `json:"next,omitempty" doc:"cursor of the next page; empty at the end of the list"`
	}
	savedCases struct {
		Cases []*release.Case `json:"cases"`
		Next  string          `json:"next,omitempty" doc:"cursor of the next page; empty at the end of the list"`
	}
	tried struct {
		// Result is that of the call, Outcomes those of the cases.
		Result   *toolroom.Result  `json:"result,omitempty"`
		Outcomes []release.Outcome `json:"outcomes,omitempty"`
	}
)

// requireAuthor returns the service and the author, or an error if the caller is not an operator.
func (s *Server) requireAuthor(ctx context.Context) (*release.Service, string, error) {
	if s.o.Releases == nil {
		return nil, "", unsupportedError("this server keeps no versions of tools")
	}
	who := auth.Identity(ctx)
	if !auth.IsOperator(who) {
		return nil, "", toolroom.Errorf(toolroom.CodeDenied, "only an operator may see or change versions of tools").
			WithHint("use a token of the group %s", auth.Operators)
	}
	return s.o.Releases, who.Key(), nil
}

// authoredTool finds the tool of a request.
func (s *Server) authoredTool(ctx context.Context, spelling string) (r *release.Service, who, tool string, number int, err error) {
	if r, who, err = s.requireAuthor(ctx); err == nil {
		tool, number, err = r.Find(ctx, spelling)
	}
	return r, who, tool, number, err
}

func (s *Server) listVersioned(ctx context.Context, in *versionedQuery) (*jsonOutput[versionedTools], error) {
	r, _, err := s.requireAuthor(ctx)
	if err != nil {
		return nil, err
	}
	list, err := r.List(ctx, release.Filter{Namespace: in.Namespace, Quarantined: in.Quarantined})
	if err != nil {
		return nil, err
	}
	list, next, err := Page(list, in.Paging, func(t release.Summary) string { return t.Tool })
	return &jsonOutput[versionedTools]{versionedTools{list, next}}, err
}

func (s *Server) showVersions(ctx context.Context, in *toolPath) (*jsonOutput[*release.Detail], error) {
	r, _, tool, _, err := s.authoredTool(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	d, err := r.Show(ctx, tool)
	return &jsonOutput[*release.Detail]{d}, err
}

func (s *Server) diffVersions(ctx context.Context, in *diffInput) (*jsonOutput[versionDiff], error) {
	r, _, tool, number, err := s.authoredTool(ctx, in.Tool)
	if err != nil {
		return nil, err
	}
	before, after, err := r.VersionsToCompare(ctx, tool, in.From, number)
	if err != nil {
		return nil, err
	}
	return &jsonOutput[versionDiff]{versionDiff{tool, before.Number, after.Number, release.Diff(before, after), release.Breaks(&before.Spec, &after.Spec)}}, nil
}

func (s *Server) push(ctx context.Context, in *Exchange) (*jsonOutput[pushedVersions], error) {
	r, who, err := s.requireAuthor(ctx)
	if err != nil {
		return nil, err
	}
	body, err := readJSON[UploadRequest](in)
	if err != nil {
		return nil, err
	}
	u := release.Upload{Files: body.Files, File: body.File, Namespace: body.Namespace, Message: body.Message, Base: -1}
	if body.Base != nil {
		u.Base = *body.Base
	}
	pushed, err := r.Push(ctx, u, who)
	return &jsonOutput[pushedVersions]{pushedVersions{pushed}}, err
}

func (s *Server) try(ctx context.Context, in *Exchange) (*jsonOutput[tried], error) {
	body, err := readJSON[TryRequest](in)
	if err != nil {
		return nil, err
	}
	r, _, tool, number, err := s.authoredTool(ctx, body.Tool)
	if err != nil {
		return nil, err
	}
	if len(body.Arguments) == 0 {
		v, err := r.Pick(ctx, tool, number)
		if err != nil {
			return nil, err
		}
		outcomes, err := r.TestCases(ctx, v)
		return &jsonOutput[tried]{tried{Outcomes: outcomes}}, err
	}
	call, err := NamedCallRequest{Tool: tool, CallRequest: CallRequest{Arguments: body.Arguments, TimeoutMS: body.TimeoutMS}}.call(auth.Identity(ctx), "")
	if err != nil {
		return nil, err
	}
	call.Surface = "test"
	return &jsonOutput[tried]{tried{Result: r.Try(ctx, tool, number, call)}}, nil
}

func (s *Server) release(ctx context.Context, in *Exchange) (*jsonOutput[release.Moved], error) {
	body, err := readJSON[ReleaseRequest](in)
	if err != nil {
		return nil, err
	}
	r, who, tool, number, err := s.authoredTool(ctx, body.Tool)
	if err != nil {
		return nil, err
	}
	rule := release.CanaryRule{Weight: body.Weight, Callers: body.Callers, Shadow: body.Shadow, Ignore: body.Ignore}
	moved, err := r.Release(ctx, release.Order{Tool: tool, Version: number, Environment: body.Environment, CanaryRule: rule, Force: body.Force, Reason: body.Reason}, who)
	return &jsonOutput[release.Moved]{moved}, err
}

func (s *Server) promote(ctx context.Context, in *Exchange) (*jsonOutput[release.Moved], error) {
	body, err := readJSON[PromoteRequest](in)
	if err != nil {
		return nil, err
	}
	r, who, tool, number, err := s.authoredTool(ctx, body.Tool)
	if err != nil {
		return nil, err
	}
	moved, err := r.Promote(ctx, tool, number, cmp.Or(body.From, release.Test), cmp.Or(body.To, release.Prod), body.Force, who)
	return &jsonOutput[release.Moved]{moved}, err
}

func (s *Server) rollback(ctx context.Context, in *Exchange) (*jsonOutput[release.Moved], error) {
	body, err := readJSON[RollbackRequest](in)
	if err != nil {
		return nil, err
	}
	r, who, tool, number, err := s.authoredTool(ctx, body.Tool)
	if err != nil {
		return nil, err
	}
	var moved release.Moved
	switch to := cmp.Or(body.To, number); {
	case body.All && to != 0:
		return nil, toolroom.Errorf(toolroom.CodeInvalidArguments, "all goes back to no version, so it takes none").WithHint("omit the version, or all")
	case body.All:
		moved, err = r.RollbackAll(ctx, tool, body.Environment, body.Reason, who)
	default:
		moved, err = r.Rollback(ctx, tool, body.Environment, to, body.Reason, who)
	}
	return &jsonOutput[release.Moved]{moved}, err
}

func (s *Server) deprecate(ctx context.Context, in *Exchange) (*jsonOutput[*release.Version], error) {
	body, err := readJSON[DeprecateRequest](in)
	if err != nil {
		return nil, err
	}
	r, who, tool, number, err := s.authoredTool(ctx, body.Tool)
	if err != nil {
		return nil, err
	}
	if number == 0 {
		return nil, toolroom.Errorf(toolroom.CodeInvalidArguments, "name the version: %s@1", tool)
	}
	if err := r.Deprecate(ctx, tool, number, body.Reason, body.Undo, who); err != nil {
		return nil, err
	}
	v, err := r.Pick(ctx, tool, number)
	return &jsonOutput[*release.Version]{v}, err
}

func (s *Server) releaseLog(ctx context.Context, in *toolQuery) (*jsonOutput[releaseLog], error) {
	r, _, err := s.requireAuthor(ctx)
	if err != nil {
		return nil, err
	}
	tool := ""
	if in.Tool != "" {
		if tool, _, err = r.Find(ctx, in.Tool); err != nil {
			return nil, err
		}
	}
	log, err := r.Store.ReleaseLog(ctx, tool, -1)
	if err != nil {
		return nil, err
	}
	log, next, err := Page(log, in.Paging, func(e release.Entry) string { return strconv.FormatInt(e.Seq, 10) })
	return &jsonOutput[releaseLog]{releaseLog{log, next}}, err
}

func (s *Server) shadowReport(ctx context.Context, in *shadowInput) (*jsonOutput[*release.ShadowReport], error) {
	r, _, tool, number, err := s.authoredTool(ctx, in.Tool)
	if err != nil {
		return nil, err
	}
	report, err := r.ShadowReport(ctx, tool, in.Environment, number)
	return &jsonOutput[*release.ShadowReport]{report}, err
}

func (s *Server) listCases(ctx context.Context, in *toolQuery) (*jsonOutput[savedCases], error) {
	r, _, err := s.requireAuthor(ctx)
	if err != nil {
		return nil, err
	}
	tool := ""
	if in.Tool != "" {
		if tool, _, err = r.Find(ctx, in.Tool); err != nil {
			return nil, err
		}
	}
	cases, err := r.Store.Cases(ctx, tool)
	if err != nil {
		return nil, err
	}
	cases, next, err := Page(cases, in.Paging, func(c *release.Case) string { return c.Tool + "/" + c.Name })
	return &jsonOutput[savedCases]{savedCases{cases, next}}, err
}

func (s *Server) saveCase(ctx context.Context, in *Exchange) (*jsonOutput[*release.Case], error) {
	body, err := readJSON[CaseRequest](in)
	if err != nil {
		return nil, err
	}
	r, who, err := s.requireAuthor(ctx)
	if err != nil {
		return nil, err
	}
	c := &release.Case{}
	if body.From != "" {
		if c, _, err = r.CaseOf(ctx, body.From); err != nil {
			return nil, err
		}
	} else if c.Tool, _, err = r.Find(ctx, body.Tool); err != nil {
		return nil, err
	}
	c.Author = who
	c.Name = cmp.Or(body.Name, c.Name)
	if len(body.Arguments) > 0 {
		c.Arguments = body.Arguments
	}
	if len(body.Expect)+len(body.Schema)+len(body.Assert)+len(body.Error) > 0 {
		c.Expect, c.ExpectHash, c.Schema, c.Assert, c.Error = body.Expect, "", body.Schema, body.Assert, toolroom.Code(body.Error)
	}
	if len(body.Fakes) > 0 {
		c.Fakes = body.Fakes
	}
	return &jsonOutput[*release.Case]{c}, r.AddCase(ctx, c)
}

func (s *Server) removeCase(ctx context.Context, in *casePath) (*struct{}, error) {
	r, _, tool, _, err := s.authoredTool(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	if err := r.Store.RemoveCase(ctx, tool, in.Name); err != nil {
		return nil, fmt.Errorf("remove a case: %w", err)
	}
	return nil, nil
}
