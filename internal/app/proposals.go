package app

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/identity"
	"github.com/toolroom/toolroom/internal/release"
	"github.com/toolroom/toolroom/internal/source/gofunc"
	"github.com/toolroom/toolroom/source"
)

// proposeTool and releaseProposal are tools for agents. The second asks a person, who sees
// its arguments: so it does nothing unless they are what the version really has.
const (
	// proposeTool and releaseProposal are tools for agents. The second requires an approval
	// by a person, who sees its arguments, so it does nothing unless they match the
	// version.
	proposeTool     = "code:propose_tool"
	releaseProposal = "code:release_proposal"
)

type proposeInput struct {
	Run         string                     `json:"run" jsonschema:"id of the call of code:execute that worked"`
	Name        string                     `json:"name" jsonschema:"name of the tool: letters, digits and _"`
	Description string                     `json:"description" jsonschema:"what the tool does, and when to use it"`
	Parameters  map[string]json.RawMessage `json:"parameters,omitempty" jsonschema:"constants of the program that become parameters, by name; its inputs are parameters anyway"`
}

// proposal is the part of a proposed version that a person sees.
type proposal struct {
	Tool        string `json:"tool"`
	Version     int    `json:"version"`
	Environment string `json:"environment"`
	// Run, Description and Parameters are those of the proposal.
	Run         string                     `json:"run"`
	Description string                     `json:"description"`
	Parameters  map[string]json.RawMessage `json:"parameters,omitempty"`
	Code        string                     `json:"code"`
	// Effects are those in the receipts of the run, and those that the version declares.
	Effects []string `json:"effects"`
	// Difference is the difference to the version that the environment serves.
	Difference string `json:"difference"`
}

type proposedVersion struct {
	Tool        string `json:"tool"`
	Version     int    `json:"version"`
	Environment string `json:"environment"`
}

// openProposals adds the tools for proposals.
func (a *App) openProposals() error {
	if !a.config.Releases.Proposals || a.config.Code.Disabled {
		return nil
	}
	propose, err := toolroom.ParseID(proposeTool)
	if err != nil {
		return err
	}
	confirm, err := toolroom.ParseID(releaseProposal)
	if err != nil {
		return err
	}
	// Both change versions and releases alone, and that can be undone.
	no := false
	hints, none := toolroom.Hints{ReadOnly: &no, Destructive: &no, OpenWorld: &no}, []toolroom.Effect{{Kind: toolroom.EffectNone}}
	first, err := gofunc.New(toolroom.Tool{
		ID: propose, Title: "Propose a tool", Hints: hints, Effects: none,
		Description: "Make a tool of a program that worked (a call of code:execute), so that it can be called again. A person sees its code and effects, and releases it to the environment test.",
	}, a.propose)
	if err != nil {
		return err
	}
	second, err := gofunc.New(toolroom.Tool{
		ID: confirm, Title: "Release a proposed tool", Description: "Used by code:propose_tool.", Hints: hints, Effects: none,
		Confirm: "a person decides about each proposed tool",
	}, a.releaseProposed)
	if err != nil {
		return err
	}
	for _, f := range []gofunc.Func{first, second} {
		if err := a.catalog.SetBuiltin(f.Tool.ID.String(), proposalSource{a.funcs.Only(f)}, []toolroom.Tool{f.Tool}); err != nil {
			return err
		}
	}
	return nil
}

// proposalSource is the source of the tools for proposals. Its previews tell a person what
// an approval releases.
type proposalSource struct{ source.Source }

// Unwrap returns the wrapped source.
func (p proposalSource) Unwrap() source.Source { return p.Source }

// PredictEffects returns nothing: the tools declare their effects.
func (proposalSource) PredictEffects(*source.Request) ([]toolroom.Effect, string) { return nil, "" }

// Enforces returns true: the tools start no program.
func (proposalSource) Enforces(*source.Request, toolroom.Effect, []toolroom.Effect) bool { return true }

// Preview describes the release in one sentence.
func (proposalSource) Preview(_ context.Context, req *source.Request) (source.Preview, error) {
	var p proposal
	if req.Tool.Unversioned().String() != releaseProposal || json.Unmarshal(req.Arguments, &p) != nil {
		return source.Preview{}, nil
	}
	return source.Preview{Effects: []string{fmt.Sprintf("releases version %d of %s to %s and to no other environment, which `toolroom tool rollback` undoes", p.Version, p.Tool, release.Test)}}, nil
}

func (a *App) propose(ctx context.Context, in proposeInput) (proposedVersion, error) {
	who := gofunc.Caller(ctx)
	p, err := a.proposeFromOwnRun(ctx, in)
	if err != nil {
		return proposedVersion{}, err
	}
	pushed, err := a.PushProposal(ctx, p, "", "proposed by "+who.String(), who.Key())
	if err != nil {
		return proposedVersion{}, err
	}
	shown, err := a.proposal(ctx, p, pushed.Tool, pushed.Number)
	if err != nil {
		return proposedVersion{}, err
	}
	shown.Run, shown.Description, shown.Parameters = in.Run, in.Description, in.Parameters
	arguments, err := json.Marshal(shown)
	if err != nil {
		return proposedVersion{}, err
	}
	result := a.runner.Run(ctx, toolroom.Call{Tool: releaseProposal, Arguments: arguments})
	if result.Error != nil {
		return proposedVersion{}, result.Error
	}
	return proposedVersion{pushed.Tool, pushed.Number, release.Test}, nil
}

// proposeFromOwnRun makes a function from a program that the caller ran.
func (a *App) proposeFromOwnRun(ctx context.Context, in proposeInput) (*Proposal, error) {
	if ran, err := a.Receipt(ctx, in.Run); err != nil || !identity.Reaches(gofunc.Caller(ctx), ran.Identity) {
		return nil, toolroom.Errorf(toolroom.CodeNotFound, "you made no call %q", in.Run).WithHint("run is the id of your own call of code:execute")
	}
	return a.ProposeFromRun(ctx, FromRunOptions{Run: in.Run, Name: in.Name, Description: in.Description, Literals: in.Parameters})
}

// proposal returns the part of a version that a person sees. Except for the code, none of
// it comes from the program's own description.
func (a *App) proposal(ctx context.Context, from *Proposal, tool string, number int) (*proposal, error) {
	v, err := a.releases.Pick(ctx, tool, number)
	if err != nil {
		return nil, err
	}
	if v.Spec.Files[v.Spec.File] != from.Upload.Files[from.Upload.File] {
		return nil, toolroom.Errorf(toolroom.CodeConflict, "version %d of %s was not made of that run", number, tool).WithHint("call %s", proposeTool)
	}
	p := &proposal{Tool: v.Tool, Version: v.Number, Environment: release.Test, Code: v.Spec.Files[v.Spec.File]}
	p.Effects = append([]string{}, from.Effects...)
	if v.Spec.ReadOnly {
		p.Effects = append(p.Effects, "declares: read-only")
	}
	if len(v.Spec.Egress) > 0 {
		p.Effects = append(p.Effects, "declares: reaches "+strings.Join(v.Spec.Egress, ", "))
	}
	d, err := a.releases.Show(ctx, tool)
	if err != nil {
		return nil, err
	}
	p.Difference = "the first version in " + release.Test
	for _, one := range d.Releases {
		if one.Environment != release.Test {
			continue
		}
		before, err := a.releases.Pick(ctx, tool, one.Version)
		if err != nil {
			return nil, err
		}
		p.Difference = release.Diff(before, v)
	}
	return p, nil
}

// releaseProposed releases a version to the environment test if the arguments, which the
// person saw, match the version.
func (a *App) releaseProposed(ctx context.Context, in proposal) (proposedVersion, error) {
	id, err := toolroom.ParseID(in.Tool)
	if err != nil {
		return proposedVersion{}, err
	}
	p, err := a.proposeFromOwnRun(ctx, proposeInput{Run: in.Run, Name: id.Name, Description: in.Description, Parameters: in.Parameters})
	if err != nil {
		return proposedVersion{}, err
	}
	really, err := a.proposal(ctx, p, in.Tool, in.Version)
	if err != nil {
		return proposedVersion{}, err
	}
	really.Run, really.Description, really.Parameters = in.Run, in.Description, in.Parameters
	if !reflect.DeepEqual(*really, in) {
		return proposedVersion{}, toolroom.Errorf(toolroom.CodeConflict, "what was approved is not what version %d of %s has", in.Version, in.Tool).WithHint("call %s", proposeTool)
	}
	who := gofunc.Caller(ctx)
	_, err = a.releases.Release(ctx, release.Order{Tool: in.Tool, Version: in.Version, Environment: release.Test, Reason: "proposed by " + who.String() + " and approved"}, who.Key())
	return proposedVersion{in.Tool, in.Version, release.Test}, err
}
