package run

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"strings"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/receipt"
)

// end makes the result, keeps the receipt, and tells everyone.
func (p *pass) end(err error) *toolroom.Result {
	r := &p.result
	if p.replayed != nil {
		*r = *p.replayed
	} else {
		p.conclude(err)
	}
	p.spread()
	r.Call, r.Tool = p.call.ID, p.tool
	p.refund()
	parked := p.parked()
	if p.keyed {
		p.settleKey(parked)
	}
	if !parked { // else it has not ended
		p.record()
	}

	kind := toolroom.EventDone
	if r.Error != nil {
		kind = toolroom.EventError
	}
	p.emit(toolroom.Event{Kind: kind, Result: r})
	p.ended.Store(true)
	return r
}

// conclude fills in what the steps have not: status, effects and usage.
func (p *pass) conclude(err error) {
	r := &p.result
	r.Status = toolroom.StatusOK
	p.maskResult()
	if err != nil {
		r.Error = p.Secrets.Error(toolroom.AsError(err))
		r.Status = r.Error.Code.Info().Status
	}
	r.Effects = p.effects()
	if p.output != nil {
		r.Execution = p.maskedExecution(p.output.Execution)
	}
	r.Usage.BytesIn, r.Usage.BytesOut = int64(len(p.call.Arguments)), p.bytesOut()
	r.Usage.Calls = int(p.children.Load())
	if p.ran.IsZero() {
		r.Usage.Queue = p.Now().Sub(p.started) - r.Usage.Wait
	}
}

// effects says what is known of what the call did to the world.
func (p *pass) effects() toolroom.Effects {
	switch {
	case p.ran.IsZero(), !p.sent, p.entry.Tool.Hints.IsReadOnly(), p.result.Usage.Cached:
		return toolroom.EffectsNone
	case p.output != nil && p.output.Effects != "":
		return p.output.Effects
	case p.output != nil && !p.output.Failed:
		return toolroom.EffectsDone
	case p.result.Error != nil && notBegun(p.result.Error):
		return toolroom.EffectsNone
	default:
		return toolroom.EffectsUnknown
	}
}

// notBegun reports whether an error of the execute phase says that the tool
// itself never began.
func notBegun(e *toolroom.Error) bool {
	if known, ok := e.Details["effects"].(toolroom.Effects); ok {
		return known == toolroom.EffectsNone
	}
	switch e.Code {
	case toolroom.CodeRateLimited, toolroom.CodeCircuitOpen, toolroom.CodeUnsupported, toolroom.CodeDenied,
		toolroom.CodeInvalidArguments, toolroom.CodeToolNotFound:
		return true
	default:
		return false
	}
}

func (p *pass) bytesOut() int64 {
	n := len(p.result.Value)
	for _, c := range p.result.Content {
		n += len(c.Text) + len(c.Data)
	}
	return int64(n)
}

// record keeps the receipt of this call.
func (p *pass) record() {
	if p.Receipts == nil {
		return
	}
	// The caller may be gone; its receipt is kept all the same.
	if err := p.Receipts.Append(context.Background(), p.receipt()); err != nil {
		p.Log.Error("a receipt was not kept", "call", p.call.ID, "error", err)
	}
}

// intend makes it durable that the tool is about to run, where it must not run
// without that.
func (p *pass) intend() error {
	if p.Receipts == nil || p.MustRecord == nil || !p.MustRecord(&p.entry.Tool) {
		return nil
	}
	p.argumentsHash()
	if err := p.Receipts.Intend(p.ctx, p.receipt(), p.Owner); err != nil {
		e := toolroom.Errorf(toolroom.CodeInternal, "%s must be recorded before it runs, and cannot be: %w", p.tool, err)
		e.Retryable = true
		return e.WithHint("free the disk or the database, then call again; nothing was run")
	}
	return nil
}

// receipt is the record of this call as it stands.
func (p *pass) receipt() *receipt.Receipt {
	r := &receipt.Receipt{
		ID:            p.call.ID,
		Parent:        p.call.Parent,
		Tool:          p.tool,
		Surface:       p.call.Surface,
		Identity:      p.call.Identity,
		Session:       p.call.Session,
		Arguments:     p.recordedArguments(),
		ArgumentsHash: p.hash,
		Key:           p.call.IdempotencyKey,
		Status:        p.result.Status,
		Effects:       p.result.Effects,
		Error:         p.recordedError(),
		Preview:       p.preview(),
		Rule:          p.decision.Rule,
		Decision:      p.decision.Effect,
		Layers:        p.recordedSteps(),
		Isolation:     p.decision.Isolation,
		Expected:      p.recordedEffects(),
		Approval:      p.approval,
		Reach:         p.inReach,
		Started:       p.started,
		Usage:         p.result.Usage,
		Refused:       p.unrecorded,
	}
	if p.entry != nil {
		r.Source, r.Labels = p.entry.Tool.Source, append(slices.Clone(p.entry.Tool.Tags), p.result.Labels...)
	}
	if len(p.result.Value) > 0 {
		r.ResultHash = receipt.Hash(p.result.Value)
	}
	if r.ArgumentsHash == "" {
		r.Called = r.Arguments
		if !bytes.Equal(r.Called, p.call.Arguments) { // something is masked
			r.Called = bytes.Clone(p.call.Arguments) // the caller may use its own again
		}
	}
	if p.result.Execution != nil {
		r.Connections = p.result.Execution.Refused
	}
	for _, a := range p.result.Artifacts {
		r.Artifacts = append(r.Artifacts, a.Handle)
	}
	return r
}

// recordedArguments is a copy of the arguments without sensitive values.
func (p *pass) recordedArguments() json.RawMessage {
	args := p.call.Arguments
	if p.entry == nil || len(args) == 0 {
		return nil // nobody knows which of them are sensitive
	}
	if p.args == nil && (len(p.entry.Tool.Sensitive) > 0 || p.result.Error != nil) {
		if _, err := p.decodedArguments(); err != nil {
			return nil // they are no JSON object
		}
	}
	if len(p.entry.Tool.Sensitive) > 0 {
		args = mask(p.args, p.entry.Tool.Sensitive)
	}
	args = append(json.RawMessage(nil), args...)
	args = p.Secrets.Mask(args)
	if len(args) > maxRecordedArguments {
		return json.RawMessage(`"[too large to record; see arguments_hash]"`)
	}
	return args
}

// maxRecordedArguments bounds a receipt; the hash is always of the whole.
const maxRecordedArguments = 64 << 10

func (p *pass) recordedError() *toolroom.Error {
	if p.result.Error == nil {
		return nil
	}
	e := *p.result.Error
	e.Details, e.Cause = nil, nil // they may repeat arguments
	e.Hint = ""
	return &e
}

func (p *pass) preview() string {
	text := p.result.Text()
	return strings.ToValidUTF8(text[:min(len(text), receipt.MaxPreview)], "")
}
