package run

import (
	"context"

	"github.com/toolroom/toolroom"
)

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
