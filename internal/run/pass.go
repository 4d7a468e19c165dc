package run

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/catalog"
	"github.com/toolroom/toolroom/internal/jsonx"
	"github.com/toolroom/toolroom/internal/policy"
	"github.com/toolroom/toolroom/internal/receipt"
	"github.com/toolroom/toolroom/internal/schema"
	"github.com/toolroom/toolroom/internal/taint"
	"github.com/toolroom/toolroom/source"
)

// pass is one call on its way through the pipeline.
type pass struct {
	*Runner
	ctx    context.Context
	call   toolroom.Call
	parent *pass
	depth  int
	budget *toolroom.Budget
	sink   func(toolroom.Event)

	started time.Time
	entry   *catalog.Entry
	tool    string // canonical id, once resolved
	args    any    // the decoded arguments
	// canonical and hash are made when a step first needs them.
	canonical []byte
	hash      string

	expected []toolroom.Effect // what the call would do
	asked    policy.Context    // what the decision was about
	decision policy.Decision
	least    policy.Isolation // that the tool may run in
	approval string           // that was used, or the standing one
	keyed    bool             // this pass holds the idempotency key

	ran  time.Time // when the tool started
	sent bool      // it may have reached the tool
	// unrecorded says that receipts cannot be kept.
	unrecorded bool
	spent      bool // what it spends is written down
	output     *source.Output
	result     toolroom.Result
	// masked says that secrets are out of result, and chunks is what is held back.
	masked bool
	chunks chunks
	// reach is what the calls around this one have read, derived what those
	// inside it have, and inReach what there was when it was decided upon.
	reach   *taint.Reach
	own     taint.Reach // the reach of a call that shares none
	derived taint.Reach
	inReach []string
	leaks   bool // it would send what is private on the word of a stranger
	costly  bool // it would spend more than passes without a word
	// children counts the calls made from inside the tool.
	children atomic.Int64
	waiting  Waiting
	kept     atomic.Pointer[Kept] // set once the call is to outlive this process
	// ended makes events of a tool that outlives its call go nowhere.
	ended atomic.Bool
	// replayed is the recorded result of an earlier call with the same key.
	replayed *toolroom.Result
	// resume is the state of a task that this call carries on.
	resume json.RawMessage
}

type passKey struct{}

// begin takes a call in. What it inherits from the call that made it, it
// inherits here.
func (r *Runner) begin(ctx context.Context, call toolroom.Call) *pass {
	p := &pass{Runner: r, ctx: ctx, call: call, started: r.Now()}
	p.sink, _ = ctx.Value(sinkKey{}).(func(toolroom.Event))
	if parent, ok := ctx.Value(passKey{}).(*pass); ok && parent.Runner == r {
		p.parent, p.depth, p.budget = parent, parent.depth+1, parent.budget
		p.call.Parent = parent.call.ID
		p.call.Identity = parent.call.Identity
		p.call.Session = parent.call.Session
	} else {
		p.budget = call.Budget
		p.resume, _ = ctx.Value(resumeKey{}).(json.RawMessage)
	}
	p.reach = p.around()
	if p.call.ID == "" {
		p.call.ID = newID("call", p.started)
	}
	if p.call.Surface == "" {
		p.call.Surface = "go"
	}
	p.tool = p.call.Tool
	return p
}

// through is the pipeline. The steps stand in the order of the design.
func (p *pass) through() error {
	for _, step := range [...]struct {
		phase toolroom.Phase
		do    func(*pass) error
	}{
		{toolroom.PhaseReceipt, (*pass).admit},
		{toolroom.PhaseResolve, (*pass).resolve},
		{toolroom.PhaseValidateInput, (*pass).validateInput},
		{toolroom.PhasePolicy, (*pass).decide},
		{toolroom.PhaseExecute, (*pass).claimKey},
		{toolroom.PhaseApproval, (*pass).approve},
		{toolroom.PhasePolicy, (*pass).spend},
		{toolroom.PhaseReceipt, (*pass).intend},
		{toolroom.PhaseExecute, (*pass).run},
		{toolroom.PhaseExecute, (*pass).normalise},
		{toolroom.PhaseValidateOutput, (*pass).validateOutput},
		{toolroom.PhaseShape, (*pass).shape},
	} {
		if err := step.do(p); err != nil {
			return p.locate(err, step.phase)
		}
		if p.replayed != nil {
			return nil
		}
	}
	return nil
}

// locate gives an error its phase and tool, and tells our own cancellation
// from the tool's failure.
func (p *pass) locate(err error, phase toolroom.Phase) *toolroom.Error {
	located := *toolroom.AsError(err)
	if located.Phase == "" {
		located.Phase = phase
	}
	if located.Tool == "" {
		located.Tool = p.tool
	}
	return &located
}

// admit refuses a call whose receipt could not be kept, and one that its
// parent may not make.
func (p *pass) admit() error {
	if err := p.ctx.Err(); err != nil {
		return toolroom.Errorf(toolroom.CodeOf(err), "the call was cancelled before it began")
	}
	if p.Receipts != nil {
		if err := p.Receipts.Ready(); err != nil {
			e := toolroom.Errorf(toolroom.CodeInternal, "no call is taken while receipts cannot be kept: %w", err)
			e.Retryable = true
			p.unrecorded = true
			return e.WithHint("free the disk or the database, then call again; nothing was run")
		}
	}
	if p.budget == nil {
		budget, err := toolroom.NewBudget(toolroom.BudgetLimits{})
		if err != nil {
			return err
		}
		p.budget = budget
	}
	if p.parent != nil {
		p.parent.children.Add(1)
		return p.budget.TakeCall(p.depth)
	}
	return nil
}

func (p *pass) resolve() error {
	visible := func(e *catalog.Entry) bool { return p.Visible(p.call.Identity)(e) }
	entry, err := p.Catalog.Resolve(p.call.Tool, visible)
	if p.Discover != nil && toolroom.CodeOf(err) == toolroom.CodeToolNotFound {
		unlisted := p.Discover(p.ctx, p.call.Tool)
		entry, err = p.Catalog.Resolve(p.call.Tool, visible)
		if unlisted != nil && toolroom.CodeOf(err) == toolroom.CodeToolNotFound {
			return unlisted // whether the tool is there is not known
		}
	}
	if err != nil {
		return err
	}
	p.entry, p.tool = entry, entry.ID
	for above := p.parent; above != nil; above = above.parent {
		if above.entry == entry {
			e := toolroom.Errorf(toolroom.CodeBudgetExceeded, "%s calls itself", p.tool)
			e.Details = map[string]any{"cycle": p.path()}
			return e.WithHint("a tool may not be called from inside its own call; break the cycle")
		}
	}
	return nil
}

// path lists the tools from the first call down to this one.
func (p *pass) path() []string {
	var path []string
	for at := p; at != nil; at = at.parent {
		path = append([]string{at.tool}, path...)
	}
	return path
}

func (p *pass) validateInput() error {
	if len(p.call.Arguments) == 0 {
		p.call.Arguments = json.RawMessage("{}")
	}
	input, err := p.entry.Input()
	if err != nil {
		return p.badSchema("input", err)
	}
	// Most calls fit, and need no tree to tell.
	if len(p.call.Arguments) <= p.Limits.InputBytes && startsObject(p.call.Arguments) && accepts(input, p.call.Arguments) {
		return nil
	}
	args, err := p.decodedArguments()
	if err != nil {
		return err
	}
	if input == nil {
		return nil
	}
	if err := input.Validate(args); err != nil {
		return p.invalidArguments(input, err)
	}
	return nil
}

// accepts reports whether a document is usable JSON that fits the schema, if
// there is one.
func accepts(s *schema.Schema, document []byte) bool {
	if s == nil {
		return jsonx.Check(document, jsonx.Limits{}) == nil
	}
	return s.Accepts(document)
}

func startsObject(document []byte) bool {
	trimmed := bytes.TrimLeft(document, " \t\r\n")
	return len(trimmed) > 0 && trimmed[0] == '{'
}

// decodedArguments is the tree of the arguments, made when a step first needs
// it.
func (p *pass) decodedArguments() (any, error) {
	if p.args != nil {
		return p.args, nil
	}
	args, err := jsonx.Decode(p.call.Arguments, jsonx.Limits{Bytes: p.Limits.InputBytes})
	if err != nil {
		return nil, toolroom.Errorf(toolroom.CodeInvalidArguments, "the arguments of %s are not usable: %w", p.tool, err).
			WithHint("send one JSON object, for example %s", catalog.ReadyCall(p.entry, catalog.FormCLI))
	}
	if _, ok := args.(map[string]any); !ok {
		return nil, toolroom.Errorf(toolroom.CodeInvalidArguments, "the arguments of %s must be a JSON object, not %s", p.tool, kindOf(args)).
			WithHint("for example %s", catalog.ReadyCall(p.entry, catalog.FormCLI))
	}
	p.args = args
	return args, nil
}

// badSchema is a schema that cannot be used: the tool's fault, not the caller's.
func (p *pass) badSchema(which string, err error) error {
	return toolroom.Errorf(toolroom.CodeUnsupported, "the %s schema of %s cannot be used: %w", which, p.tool, err).
		WithHint("the tool's author must mend the schema")
}

func (p *pass) invalidArguments(input *schema.Schema, err error) error {
	e := toolroom.Errorf(toolroom.CodeInvalidArguments, "the arguments of %s do not fit: %w", p.tool, err)
	if failure := (*schema.Failure)(nil); errors.As(err, &failure) {
		e.Details = map[string]any{"problems": failure.Problems}
	}
	if e.Details == nil {
		return e
	}
	if repaired, ok := schema.Repair(input, p.args); ok {
		e.Details["example"] = repaired
		return e.WithHint("this would be accepted: %s", repaired)
	}
	return e.WithHint("see what it takes: toolroom describe %s", p.tool)
}

func (p *pass) decide() error {
	if err := p.recall(); err != nil {
		return toolroom.Errorf(toolroom.CodeInternal, "what this session has read is not known: %w", err)
	}
	p.decision = p.guarded(p.judge())
	if err := p.afford(); err != nil {
		return err
	}
	if p.decision.Log {
		p.Log.Info("call", "id", p.call.ID, "tool", p.tool, "identity", p.call.Identity.String(), "surface", p.call.Surface, "effect", string(p.decision.Effect), "rule", p.decision.Rule)
	}
	switch {
	case p.decision.Effect == policy.Deny:
		e := toolroom.Errorf(toolroom.CodeDenied, "%s may not call %s: %s%s", p.call.Identity, p.tool, p.decision.Rule, p.because())
		e.Details = map[string]any{"rule": p.decision.Rule}
		if p.leaks {
			e.Details["reach"] = p.inReach
		}
		e.Hint = p.decision.Hint
		return e
	case Unwalled(p.entry, p.decision):
		return p.unwalled()
	default:
		return p.checkScopes()
	}
}

// policyContext is what this call brings to a decision.
func (p *pass) policyContext() *policy.Context {
	calls, bytes := p.budget.Left()
	p.asked = policy.Context{
		Arguments: p.decodedArguments,
		Surface:   p.call.Surface,
		Session:   p.call.Session,
		Time:      p.started,
		Depth:     p.depth,
		Effects:   p.expect(),
		Secrets:   p.trust().Secrets,
		Taint:     taint.Labels(p.reach.Marks()),
		Budget:    policy.Budget{Calls: calls, Bytes: bytes},
	}
	return &p.asked
}

func (p *pass) canonicalArguments() ([]byte, error) {
	if p.canonical == nil {
		canonical, err := jsonx.Canonical(p.call.Arguments)
		if err != nil {
			return nil, err
		}
		p.canonical = canonical
	}
	return p.canonical, nil
}

// argumentsHash is the SHA-256, in hex, of the canonical arguments.
func (p *pass) argumentsHash() string {
	if p.hash == "" {
		if canonical, err := p.canonicalArguments(); err == nil {
			p.hash = receipt.Hash(canonical)
		}
	}
	return p.hash
}

func kindOf(v any) string {
	switch v.(type) {
	case nil:
		return "null"
	case string:
		return "a string"
	case bool:
		return "a boolean"
	case []any:
		return "an array"
	case map[string]any:
		return "an object"
	default:
		return fmt.Sprintf("a number (%v)", v)
	}
}
