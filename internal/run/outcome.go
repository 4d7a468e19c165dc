package run

import (
	"context"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/source"
)

// outcome is a call whose stages are over, with its result while that is made.
type outcome struct {
	*call
	at     *progress
	result draft
	// replayed is the recorded result that the call returns, nil if it makes its own.
	replayed *toolroom.Result
	// mayHaveRun reports that an earlier process may have run the tool for this call.
	mayHaveRun bool
}

// newOutcome returns the outcome of a call that has reached the stages in at.
func newOutcome(c *call, at *progress) *outcome {
	o := &outcome{call: c, at: at}
	if at.approved != nil {
		o.result.Usage.Wait = at.approved.waited
	}
	if at.claimed != nil {
		o.mayHaveRun, o.replayed = at.claimed.mayHaveRun, at.claimed.replayed
	}
	if at.executed != nil {
		o.result = at.executed.result
	}
	return o
}

// end makes the result, stores the receipt and sends the last event. A panic in
// one part does not prevent the others.
func (o *outcome) end(err error) *toolroom.Result {
	if o.replayed != nil {
		o.result.Result = *o.replayed
		o.result.Replayed = true
	} else if o.catchPanic(toolroom.PhaseShape, func() { o.conclude(err) }) != nil {
		o.concludePanicked()
	}
	r := &o.result.Result
	_ = o.catchPanic(toolroom.PhaseReceipt, o.propagateTaint)
	r.Call, r.Tool = o.request.ID, o.tool
	_ = o.catchPanic(toolroom.PhaseReceipt, o.refund)
	suspended := false
	_ = o.catchPanic(toolroom.PhaseReceipt, func() { suspended = o.checkSuspended() })
	if o.holdsKey() {
		_ = o.catchPanic(toolroom.PhaseReceipt, func() { o.settleKey(suspended) })
	}
	if !suspended { // else it has not ended
		_ = o.catchPanic(toolroom.PhaseReceipt, o.record)
		_ = o.catchPanic(toolroom.PhaseReceipt, o.reportServed)
	}

	kind := toolroom.EventDone
	if r.Error != nil {
		kind = toolroom.EventError
	}
	o.emit(toolroom.Event{Kind: kind, Result: r})
	o.stream.ended.Store(true)
	if s := o.suspension.Load(); s != nil && s != o.background {
		_ = o.catchPanic(toolroom.PhaseReceipt, func() { s.settle(o.ctx, r) })
	}
	return r
}

// reportServed passes a call of a released tool to [Options.OnServed].
func (o *outcome) reportServed() {
	if found := o.at.resolved; o.runner.OnServed != nil && found != nil && found.entry.Tool.Release != nil && o.replayed == nil {
		o.runner.OnServed(o.request, &found.entry.Tool, &o.result.Result)
	}
}

// holdsKey reports whether the call holds its idempotency key.
func (o *outcome) holdsKey() bool { return o.at.claimed != nil && o.at.claimed.holdsKey }

// sent reports whether the call may have reached its tool.
func (o *outcome) sent() bool { return o.at.executed != nil && o.at.executed.sent }

// output returns what the source returned, or nil.
func (o *outcome) output() *source.Output {
	if o.at.executed == nil {
		return nil
	}
	return o.at.executed.output
}

// concludePanicked sets the result of a call for which conclude has panicked. It contains
// none of the tool's output, which may hold secrets.
func (o *outcome) concludePanicked() {
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
	if err != nil && o.at.executed == nil {
		if o.background != nil {
			o.background.toolNotRun = true
		}
		if o.mayHaveRunEarlier() && !o.harmless() {
			o.mayHaveRun = true
			r.Error = o.withUnknownEffects(r.Error)
		}
		if o.background != nil && o.at.resolved != nil && o.runner.mayHaveActed(context.WithoutCancel(o.ctx), o.background.job) {
			o.mayHaveRun = true // up to where it was suspended
		}
	}
	r.Effects = o.effects()
	if out := o.output(); out != nil {
		r.Execution = redactedExecution(o.runner.Secrets, out.Execution)
	}
	r.Usage.BytesIn, r.Usage.BytesOut = int64(len(o.request.Arguments)), o.bytesOut()
	r.Usage.Calls = int(o.tally.calls.Load())
	if o.at.executed == nil {
		r.Usage.Queue = o.runner.Now().Sub(o.started) - r.Usage.Wait
	}
}

// effects returns what is known about the effects of the call.
func (o *outcome) effects() toolroom.Effects {
	out := o.output()
	switch {
	case o.mayHaveRun && !o.sent() && !o.harmless():
		return toolroom.EffectsUnknown
	case !o.sent(), o.harmless(), o.result.Usage.Cached:
		return toolroom.EffectsNone
	case out != nil && out.Effects != "":
		return out.Effects
	case out != nil && !out.Failed:
		return toolroom.EffectsDone
	case o.result.Error != nil && toolNeverRan(o.result.Error):
		return toolroom.EffectsNone
	default:
		return toolroom.EffectsUnknown
	}
}

// harmless reports whether the tool is known to have no effects.
func (o *outcome) harmless() bool {
	return o.at.resolved != nil && o.at.resolved.entry.Tool.Hints.IsReadOnly()
}

// toolNeverRan reports whether an error of the execute phase means that the tool did not run.
func toolNeverRan(e *toolroom.Error) bool {
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

// mayHaveRunEarlier reports whether an earlier process may have run the tool of this call and
// died before the call ended. It must not be called if this process has run the tool.
func (o *outcome) mayHaveRunEarlier() bool {
	if o.mayHaveRun || o.resume != nil {
		return true
	}
	if o.background == nil || o.holdsKey() || o.background.job.Fence <= 1 {
		return false
	}
	return o.keyClaimedEarlier()
}

// keyClaimedEarlier reports whether an earlier process has claimed the idempotency key of this
// call. A background call claims it before its tool runs.
func (o *outcome) keyClaimedEarlier() bool {
	if o.runner.Keys == nil || o.request.IdempotencyKey == "" {
		return true // it is not known
	}
	ctx, now := context.WithoutCancel(o.ctx), o.runner.Now()
	record := o.keyRecord()
	record.Created, record.Expires = now, now.Add(o.runner.Limits().KeyTTL)
	_, claimed, err := o.runner.Keys.ClaimKey(ctx, record, now)
	if err != nil || !claimed {
		return true
	}
	if err := o.runner.Keys.ReleaseKey(ctx, record.Identity, record.Key, record.Call); err != nil {
		o.runner.Log.Error("failed to release an idempotency key", "call", o.request.ID, "error", err)
	}
	return false
}

// withUnknownEffects returns the error of a call that an earlier process may have run without
// finishing it: a copy of known that is not retryable and whose effects are unknown.
func (o *outcome) withUnknownEffects(known *toolroom.Error) *toolroom.Error {
	e := *known
	e.Retryable = false
	e.Effects = toolroom.EffectsUnknown
	if e.Code != toolroom.CodeConflict { // which says so already
		e.Message += "; an earlier process ended while it ran the call, and whether " + o.tool + " acted is unknown"
		e.Hint = "check what it did before you call it again"
	}
	return &e
}

// hasCallerKey reports whether the caller has set the idempotency key of this call. A background
// call without one gets a key of its job.
func (c *call) hasCallerKey() bool { return c.background == nil || c.background.hasCallerKey() }
