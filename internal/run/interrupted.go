package run

import (
	"context"

	"github.com/toolroom/toolroom"
)

// interruptedBefore reports whether an earlier process may have run the tool of this call
// and died before the call ended. This process has not run it.
func (o *outcome) interruptedBefore() bool {
	if o.begun || o.resume != nil {
		return true
	}
	if o.background == nil || o.held() || o.background.job.Fence <= 1 {
		return false
	}
	return o.claimedBefore()
}

// claimedBefore reports whether an earlier process had claimed the key of this call, which
// a background call does before its tool runs.
func (o *outcome) claimedBefore() bool {
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

// lost returns the error of a call that an earlier process did not finish: its
// effects are not known.
func (o *outcome) lost(known *toolroom.Error) *toolroom.Error {
	e := *known
	e.Retryable = false
	e.Effects = toolroom.EffectsUnknown
	if e.Code != toolroom.CodeConflict { // which says so already
		e.Message += "; an earlier process ended while it ran the call, and whether " + o.tool + " acted is unknown"
		e.Hint = "check what it did before you call it again"
	}
	return &e
}

// ownKey reports whether the caller set the key of this call, rather than the background
// call itself.
func (c *call) ownKey() bool { return c.background == nil || c.background.keyOfCaller() }
