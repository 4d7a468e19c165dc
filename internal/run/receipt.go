package run

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strings"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/jsonx"
	"github.com/toolroom/toolroom/internal/receipt"
)

// intend durably records that the tool is about to run, if the tool must not run
// without a record.
func (c *clearedCall) intend() error {
	receipts := c.runner.Receipts
	if receipts == nil || c.runner.MustRecord == nil || !c.runner.MustRecord(&c.entry.Tool) {
		return nil
	}
	c.argumentsHash()
	so := newOutcome(c.call, &progress{resolved: c.resolvedCall, decided: c.decidedCall, claimed: c.claimedCall, approved: c.approvedCall, cleared: c})
	if err := receipts.Intend(c.ctx, &so.receipt().Receipt, c.runner.Owner); err != nil {
		e := toolroom.Errorf(toolroom.CodeInternal, "%s must be recorded before it runs, and recording failed: %w", c.tool, err)
		e.Retryable = true
		return e.WithHint("free disk space or repair the database, then call again; nothing was run")
	}
	return nil
}

// record stores the receipt of the call.
func (o *outcome) record() {
	if o.runner.Receipts == nil {
		return
	}
	var made *receipt.Draft
	if o.catchPanic(toolroom.PhaseReceipt, func() { made = o.receipt() }) != nil {
		made = o.bareReceipt()
	}
	// The receipt is stored even if the caller is gone.
	if err := o.runner.Receipts.Append(context.Background(), made); err != nil {
		o.runner.Log.Error("failed to store a receipt", "call", o.request.ID, "error", err)
	}
}

// receipt returns the receipt of the call as far as it came.
func (o *outcome) receipt() *receipt.Draft {
	r := o.bareReceipt()
	r.Arguments, r.ArgumentsHash = o.call.recordedArguments(o.at.resolved, o.result.Error != nil), o.arguments.hash
	r.Preview = o.preview()
	if d := o.at.decided; d != nil {
		r.Layers, r.Isolation, r.Expected, r.Reach = d.recordedSteps(), d.decision.Isolation, d.recordedEffects(), d.taint
	}
	r.Refused = o.unrecorded
	if found := o.at.resolved; found != nil {
		r.Source, r.Labels = found.entry.Tool.Source, append(slices.Clone(found.entry.Tool.Tags), o.result.Labels...)
		if r.Release = found.entry.Tool.Release; r.Release != nil {
			r.Environment = cmp.Or(o.request.Environment, DefaultEnvironment)
		}
	}
	if len(o.result.Value) > 0 {
		r.ResultHash = receipt.Hash(o.result.Value)
	}
	if o.parent != nil {
		r.Value = o.recordedValue()
	}
	if r.ArgumentsHash == "" {
		r.RawArguments = r.Arguments
		if !bytes.Equal(r.RawArguments, o.request.Arguments) { // something is redacted
			r.RawArguments = bytes.Clone(o.request.Arguments) // the caller may use its own again
		}
	}
	r.Warnings = o.result.Warnings
	r.Logs, r.LogsHidden = o.stream.logs.forReceipt(o.runner.Secrets, o.runner.Now(), o.result.Execution)
	if o.result.Execution != nil {
		r.Connections = o.result.Execution.Refused
	}
	for _, a := range o.result.Artifacts {
		r.Artifacts = append(r.Artifacts, a.Handle)
	}
	return r
}

// bareReceipt returns the receipt of the call without its arguments and its result, which
// may be impossible to encode.
func (o *outcome) bareReceipt() *receipt.Draft {
	r := &receipt.Draft{Receipt: toolroom.Receipt{
		ID: o.request.ID, Parent: o.request.Parent, Tool: o.tool, Surface: o.request.Surface, Identity: o.request.Identity, Session: o.request.Session,
		Key: o.request.IdempotencyKey, Status: o.result.Status, Effects: o.result.Effects, Error: o.recordedError(),
		Started: o.started, Usage: o.result.Usage,
	}}
	if d := o.at.decided; d != nil {
		r.Rule, r.Decision = d.decision.Rule, d.decision.Effect
	}
	if a := o.at.approved; a != nil {
		r.Approval = a.approval
	}
	if e := o.result.Error; e != nil && e.Code == toolroom.CodeApprovalRequired {
		r.PendingApproval = e.Approval
	}
	return r
}

// recordedArguments returns a copy of the arguments without secrets and sensitive values.
// The arguments of an unknown tool are not recorded, because it is not known which of them
// are sensitive. If the call failed they may be no JSON object, which is not recorded
// either.
func (c *call) recordedArguments(found *resolvedCall, failed bool) json.RawMessage {
	args := c.request.Arguments
	if found == nil || len(args) == 0 {
		return nil
	}
	sensitive := found.entry.Tool.Sensitive
	switch {
	case len(sensitive) > 0:
		tree, err := found.decodedArguments()
		if err != nil {
			return nil
		}
		args = withoutSensitive(tree, sensitive)
	case failed && c.arguments.tree == nil:
		if !startsObject(args) || jsonx.Check(args, jsonx.Limits{Bytes: c.runner.Limits().InputBytes}) != nil {
			return nil
		}
	}
	args = append(json.RawMessage(nil), args...)
	args = c.runner.Secrets.Redact(args)
	if len(args) > maxRecordedArguments {
		return json.RawMessage(`"[too large to record; see arguments_hash]"`)
	}
	return args
}

// recordedValue returns the value of the call, or its text, if it is short and whole.
func (o *outcome) recordedValue() json.RawMessage {
	value := o.result.Value
	if len(value) == 0 {
		value, _ = json.Marshal(o.result.Text()) // a text can always be encoded
	}
	if o.result.Error != nil || o.result.Hidden != nil || len(value) > receipt.MaxValue {
		return nil
	}
	return append(json.RawMessage(nil), value...)
}

// Limits of a receipt, in bytes. A receipt that is longer than a line of an export may be would
// make the export unreadable.
const (
	// maxRecordedArguments limits the arguments; their hash is always of the whole.
	maxRecordedArguments = 64 << 10
	// maxReportedTool limits what is repeated of a tool's spelling, also in results. No spelling
	// that names a tool is longer.
	maxReportedTool = 512
	// maxName limits the names of an agent, a model provider, a skill and a session, and an
	// idempotency key.
	maxName = 1024
)

// reportedTool returns a tool's spelling as results and receipts repeat it.
func reportedTool(spelling string) string {
	if len(spelling) <= maxReportedTool {
		return spelling
	}
	return strings.ToValidUTF8(spelling[:maxReportedTool], "") + "…"
}

// checkNames returns an error if the call has a name that is too long. It removes the name, or
// cuts that of the caller, so that the receipt does not keep it.
func (c *call) checkNames() (err error) {
	check := func(what string, name *string, kept int) {
		if size := len(*name); size > maxName {
			*name = strings.ToValidUTF8((*name)[:kept], "")
			err = toolroom.Errorf(toolroom.CodeInvalidArguments, "the %s has %d bytes, the limit is %d", what, size, maxName).
				WithHint("use a shorter one")
		}
	}
	const kept = 64
	check("name of the agent", &c.request.Identity.Agent, kept)
	check("name of the model provider", &c.request.Identity.Provider, kept)
	check("name of the skill", &c.request.Identity.Skill, kept)
	check("name of the session", &c.request.Session, 0)
	check("idempotency key", &c.request.IdempotencyKey, 0)
	return err
}

func (o *outcome) recordedError() *toolroom.Error {
	if o.result.Error == nil {
		return nil
	}
	e := *o.result.Error
	e.Details, e.Facts, e.Cause = nil, toolroom.Facts{}, nil // they may repeat arguments
	e.Hint = ""
	return &e
}

func (o *outcome) preview() string {
	text := o.result.Text()
	return strings.ToValidUTF8(text[:min(len(text), receipt.MaxPreview)], "")
}
