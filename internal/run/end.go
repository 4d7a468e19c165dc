package run

import (
	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/source"
)

// outcome is the end of a call: what it reached, and the result that is made of that.
type outcome struct {
	*call
	at     *reached
	result draft
	// replayed is the recorded result that the call returns instead of one of its own.
	replayed *toolroom.Result
	// begun says that an earlier process may have run the tool for this call.
	begun bool
}

// newOutcome returns the outcome of a call that came as far as at.
func newOutcome(c *call, at *reached) *outcome {
	o := &outcome{call: c, at: at}
	if at.approved != nil {
		o.result.Usage.Wait = at.approved.waited
	}
	if at.claimed != nil {
		o.begun, o.replayed = at.claimed.begun, at.claimed.replayed
	}
	if at.ran != nil {
		o.result = at.ran.result
	}
	return o
}

// end makes the result, stores the receipt and sends the last event. A panic in
// one part does not prevent the others.
func (o *outcome) end(err error) *toolroom.Result {
	if o.replayed != nil {
		o.result.Result = *o.replayed
		o.result.Replayed = true
	} else if o.try(toolroom.PhaseShape, func() { o.conclude(err) }) != nil {
		o.concludeBroken()
	}
	r := &o.result.Result
	_ = o.try(toolroom.PhaseReceipt, o.propagate)
	r.Call, r.Tool = o.request.ID, o.tool
	_ = o.try(toolroom.PhaseReceipt, o.refund)
	suspended := false
	_ = o.try(toolroom.PhaseReceipt, func() { suspended = o.suspended() })
	if o.held() {
		_ = o.try(toolroom.PhaseReceipt, func() { o.settleKey(suspended) })
	}
	if !suspended { // else it has not ended
		_ = o.try(toolroom.PhaseReceipt, o.record)
		_ = o.try(toolroom.PhaseReceipt, o.tellServed)
	}

	kind := toolroom.EventDone
	if r.Error != nil {
		kind = toolroom.EventError
	}
	o.emit(toolroom.Event{Kind: kind, Result: r})
	o.stream.ended.Store(true)
	if s := o.suspension.Load(); s != nil && s != o.background {
		_ = o.try(toolroom.PhaseReceipt, func() { s.settle(o.ctx, r) })
	}
	return r
}

// tellServed reports a call of a released tool.
func (o *outcome) tellServed() {
	if found := o.at.resolved; o.runner.Served != nil && found != nil && found.entry.Tool.Release != nil && o.replayed == nil {
		o.runner.Served(o.request, &found.entry.Tool, &o.result.Result)
	}
}

// held reports whether the call holds its idempotency key.
func (o *outcome) held() bool { return o.at.claimed != nil && o.at.claimed.held }

// sent reports whether the call may have reached its tool.
func (o *outcome) sent() bool { return o.at.ran != nil && o.at.ran.sent }

// output returns what the source returned, or nil.
func (o *outcome) output() *source.Output {
	if o.at.ran == nil {
		return nil
	}
	return o.at.ran.output
}

// concludeBroken makes the result of a call whose own result cannot be made. It
// contains none of the tool's output, which may hold secrets.
func (o *outcome) concludeBroken() {
	e := toolroom.Errorf(toolroom.CodeInternal, "the result of the call failed inside Toolroom")
	e.Phase, e.Tool, e.Hint = toolroom.PhaseShape, o.tool, "this is a bug: report it with the stack trace that the log shows for call "+o.request.ID
	o.result.Result = toolroom.Result{Usage: o.result.Usage, Error: e, Status: e.Code.Info().Status}
	o.result.Effects = o.effects()
}

// conclude sets the status, effects and usage of the result.
func (o *outcome) conclude(err error) {
	r := &o.result
	r.Status = toolroom.StatusOK
	r.redact(o.runner.Secrets)
	if err != nil {
		r.Error = o.runner.Secrets.Error(toolroom.AsError(err))
		r.Status = r.Error.Code.Info().Status
	}
	if err != nil && o.at.ran == nil {
		if o.background != nil {
			o.background.untouched = true
		}
		if o.interruptedBefore() && !o.harmless() {
			o.begun = true
			r.Error = o.lost(r.Error)
		}
	}
	r.Effects = o.effects()
	if out := o.output(); out != nil {
		r.Execution = redactedExecution(o.runner.Secrets, out.Execution)
	}
	r.Usage.BytesIn, r.Usage.BytesOut = int64(len(o.request.Arguments)), o.bytesOut()
	r.Usage.Calls = int(o.inside.calls.Load())
	if o.at.ran == nil {
		r.Usage.Queue = o.runner.Now().Sub(o.started) - r.Usage.Wait
	}
}

// effects returns what is known about the effects of the call.
func (o *outcome) effects() toolroom.Effects {
	out := o.output()
	switch {
	case o.begun && !o.sent() && !o.harmless():
		return toolroom.EffectsUnknown
	case !o.sent(), o.harmless(), o.result.Usage.Cached:
		return toolroom.EffectsNone
	case out != nil && out.Effects != "":
		return out.Effects
	case out != nil && !out.Failed:
		return toolroom.EffectsDone
	case o.result.Error != nil && notBegun(o.result.Error):
		return toolroom.EffectsNone
	default:
		return toolroom.EffectsUnknown
	}
}

// harmless reports whether the tool is known to have no effects.
func (o *outcome) harmless() bool {
	return o.at.resolved != nil && o.at.resolved.entry.Tool.Hints.IsReadOnly()
}

// notBegun reports whether an error of the execute phase says that the tool
// itself never began.
func notBegun(e *toolroom.Error) bool {
	if e.Effects != "" {
		return e.Effects == toolroom.EffectsNone
	}
	switch e.Code {
	case toolroom.CodeRateLimited, toolroom.CodeCircuitOpen, toolroom.CodeUnsupported, toolroom.CodeDenied,
		toolroom.CodeInvalidArguments, toolroom.CodeToolNotFound:
		return true
	default:
		return false
	}
}

func (o *outcome) bytesOut() int64 {
	n := len(o.result.Value)
	for _, c := range o.result.Content {
		n += len(c.Text) + len(c.Data)
	}
	return int64(n)
}
