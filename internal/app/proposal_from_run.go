package app

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/code"
	"github.com/toolroom/toolroom/internal/receipt"
	"github.com/toolroom/toolroom/internal/release"
	"github.com/toolroom/toolroom/internal/source/function"
)

// FromRunOptions say which program becomes a function, and how.
type FromRunOptions struct {
	// Run is the id of the program's call of code:execute. Name is the name of the
	// function.
	Run         string `json:"run"`
	Name        string `json:"name"`
	Description string `json:"description,omitempty"`
	// Literals are constants of the program that become parameters, by name.
	Literals map[string]json.RawMessage `json:"literals,omitempty"`
}

// Proposal is a function made from a program that has run.
type Proposal struct {
	Upload release.Upload
	Case   *release.Case
	// Effects are the effects of the program's calls according to its receipts.
	Effects []string
	// Unrecorded are the calls whose results were too long to record. If there are any, the
	// case makes real calls.
	Unrecorded []string
}

// maxReadCalls is the largest number of a program's calls that are read.
const maxReadCalls = receipt.MaxLimit

// ProposeFromRun makes a function from a program that has run. The program's inputs and the
// named constants become parameters, and its calls become the fakes of a case.
func (a *App) ProposeFromRun(ctx context.Context, o FromRunOptions) (*Proposal, error) {
	ran, err := a.Receipt(ctx, o.Run)
	if err != nil {
		return nil, err
	}
	if ran.Tool != code.Tool {
		return nil, toolroom.Errorf(toolroom.CodeInvalidArguments, "call %s is one of %s, not a program", o.Run, ran.Tool).WithHint("name a call of %s that succeeded", code.Tool)
	}
	if ran.Status != toolroom.StatusOK {
		return nil, toolroom.Errorf(toolroom.CodeConflict, "the program %s ended with %s: only one that worked can become a tool", o.Run, ran.Status)
	}
	var args code.Request
	if ran.Redacted || json.Unmarshal(ran.Arguments, &args) != nil || args.Code == "" {
		return nil, toolroom.Errorf(toolroom.CodeConflict, "the receipt of %s does not have the program: it was redacted, or is too large", o.Run)
	}
	language, ok := code.Language(args.Language)
	if !ok {
		language = args.Language
	}
	f := &function.ProgramRun{Name: o.Name, Description: o.Description, Language: language, Code: args.Code, Literals: o.Literals, ReadOnly: len(args.Egress) == 0, Egress: args.Egress}
	if f.Description == "" {
		f.Description = "Made from run " + o.Run + "."
	}
	if len(args.Inputs) > 0 {
		if err := json.Unmarshal(args.Inputs, &f.Inputs); err != nil {
			return nil, err
		}
	}
	calls, err := a.Receipts(ctx, toolroom.ReceiptQuery{Parent: ran.ID, Limit: maxReadCalls})
	if err != nil {
		return nil, err
	}
	p := &Proposal{Case: &release.Case{Name: "as in " + o.Run, From: o.Run, ExpectHash: ran.ResultHash}}
	for _, call := range slices.Backward(calls) {
		p.addCall(call, f)
	}
	if len(calls) == maxReadCalls {
		f.ReadOnly = false
		p.Effects = append(p.Effects, fmt.Sprintf("more calls than the %d that were read", maxReadCalls))
	}
	f.Effects = p.Effects
	name, text, arguments, err := f.File()
	if err != nil {
		return nil, err
	}
	p.Upload = release.Upload{Files: map[string]string{name: text}, File: name, Only: o.Name, Base: -1, Message: "made from run " + o.Run}
	p.Case.Arguments = arguments
	p.Case.Fakes, p.Unrecorded = fakesFromCalls(calls)
	return p, nil
}

// addCall records in p and f what a call of the program did.
func (p *Proposal) addCall(call *toolroom.Receipt, f *function.ProgramRun) {
	if id, err := toolroom.ParseID(call.Tool); err == nil && !slices.Contains(f.Namespaces, id.Namespace) {
		f.Namespaces = append(f.Namespaces, id.Namespace)
	}
	if call.Effects != toolroom.EffectsNone || slices.ContainsFunc(call.Expected, mayChange) {
		f.ReadOnly = false
	}
	seen := call.Tool
	for _, e := range call.Expected {
		seen += "; " + strings.Join(strings.Fields(fmt.Sprint(e.Kind, " ", e.Mode, " ", e.Target)), " ")
	}
	if call.Effects != toolroom.EffectsNone {
		seen += " (effects: " + string(call.Effects) + ")"
	}
	if !slices.Contains(p.Effects, seen) {
		p.Effects = append(p.Effects, seen)
	}
}

// mayChange reports whether an effect can be a change.
func mayChange(e toolroom.Effect) bool {
	switch e.Kind {
	case toolroom.EffectNone, toolroom.EffectSend:
		return false
	case toolroom.EffectFile:
		return e.Mode != "read"
	case toolroom.EffectHost:
		return e.Mode != "get" && e.Mode != "head"
	case toolroom.EffectSQL:
		return e.Mode != "select"
	default:
		return true
	}
}

// PushProposal pushes the function of a proposal, with its case.
func (a *App) PushProposal(ctx context.Context, p *Proposal, namespace, message, who string) (release.Pushed, error) {
	p.Upload.Namespace = namespace
	if message != "" {
		p.Upload.Message = message
	}
	pushed, err := a.releases.Push(ctx, p.Upload, who)
	if err != nil {
		return release.Pushed{}, err
	}
	p.Case.Tool, p.Case.Author = pushed[0].Tool, who
	pushed[0].Cases++
	return pushed[0], a.releases.AddCase(ctx, p.Case)
}
