package run

import (
	"cmp"
	"context"
	"encoding/json"
	"strings"
	"sync"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/identity"
	"github.com/toolroom/toolroom/internal/jsonx"
	"github.com/toolroom/toolroom/source"
)

// keyPoll is how often a repeat checks whether another process has finished the
// first call.
const keyPoll = 100 * time.Millisecond

// KeyStore stores calls by identity and idempotency key, so that a repeat returns
// the stored result. Its methods are safe for concurrent use, also by several
// processes on one store.
type KeyStore interface {
	// ClaimKey durably records that a call runs under a key. If the key is taken,
	// ClaimKey returns the record that holds it, and claimed is false. A record that
	// has expired at now does not hold its key.
	ClaimKey(ctx context.Context, k KeyRecord, now time.Time) (held KeyRecord, claimed bool, err error)
	// FinishKey stores the result of the call that holds the key. It returns a
	// conflict if another call holds the key, and not_found if none does.
	FinishKey(ctx context.Context, identity, key, call string, result json.RawMessage) error
	// ReleaseKey releases a key whose call never started, so that a repeat runs. It
	// returns nil if the key is free, and a conflict if another call holds it or its
	// call has a result.
	ReleaseKey(ctx context.Context, identity, key, call string) error
}

// KeyRecord is one use of an idempotency key.
type KeyRecord struct {
	Identity string
	Key      string
	// Tool and ArgumentsHash identify the call; another tool or other arguments
	// under the same key are a conflict. After a newline, ArgumentsHash names the
	// restrictions of the caller.
	Tool          string
	ArgumentsHash string
	Call          string
	// Owner is the process that runs the call. While it is alive the call may
	// still finish.
	Owner string
	// Created is when the key was claimed. If a call was interrupted while it waited for a
	// person and is made again, it is when the first attempt claimed the key.
	Created time.Time
	Expires time.Time
	// Result is the encoded result, empty while the call runs.
	Result json.RawMessage
}

// claim makes this call the one that runs under its idempotency key, or finds the
// recorded result of the one that did. While that one still runs, the repeat waits for it.
func (d *decidedCall) claim() (*claimedCall, error) {
	c := &claimedCall{decidedCall: d}
	if c.request.IdempotencyKey == "" {
		return c, nil
	}
	return c, c.claimKey()
}

// claimKey claims the key, or sets replayed. It frees the key of a call whose process died.
func (c *claimedCall) claimKey() error {
	key := c.request.IdempotencyKey
	if c.runner.Keys == nil {
		return toolroom.Errorf(toolroom.CodeUnsupported, "idempotency keys need a store, and this room has none")
	}
	record := c.keyRecord()
	gone := "" // a call that holds the key and that no process runs
	for {
		now := c.runner.Now()
		record.Created, record.Expires = now, now.Add(c.runner.Limits().KeyTTL)
		if !c.earlierClaim.IsZero() {
			record.Created = c.earlierClaim
		}
		// The call is added before it claims the key, so that a repeat in this process
		// that finds the claim can wait for the call.
		remove := c.runner.keyedCalls.add(c.request.ID)
		held, claimed, err := c.runner.Keys.ClaimKey(c.ctx, record, now)
		if err != nil || !claimed {
			remove()
		}
		switch {
		case err != nil:
			return err
		case claimed:
			c.holdsKey = true
			return nil
		case restrictionOf(held) != restrictionOf(record):
			return toolroom.Errorf(toolroom.CodeConflict, "idempotency key %q was already used by a caller of %s with other rights", key, c.request.Identity.Key()).
				WithHint("use a new key; only a caller with the same agent, provider, skill, groups and scopes can repeat a call")
		case held.Tool != record.Tool || held.ArgumentsHash != record.ArgumentsHash:
			return toolroom.Errorf(toolroom.CodeConflict, "idempotency key %q was already used for another call of %s", key, held.Tool).
				WithHint("use a new key for a new call; repeat a call with the same arguments")
		case len(held.Result) > 0:
			var recorded keyResult
			if err := json.Unmarshal(held.Result, &recorded); err != nil {
				return toolroom.Errorf(toolroom.CodeInternal, "the recorded result of key %q cannot be read: %w", key, err)
			}
			recorded.Result.Raw = recorded.Sent
			c.replayed = &recorded.Result
			return nil
		}
		waited, err := c.awaitHolder(held)
		switch {
		case err != nil:
			return err
		case waited:
		case gone == held.Call:
			if err := c.releaseDeadKey(held); err != nil {
				return err
			}
		default:
			gone = held.Call // it may have ended since its record was read
		}
	}
}

// awaitHolder waits until the call that holds the key may have ended. It reports
// false if no process runs that call.
func (c *claimedCall) awaitHolder(held KeyRecord) (bool, error) {
	if held.Call == c.request.ID && c.canResume() { // this call itself, before it was interrupted
		c.mayHaveRun = true
		return true, c.runner.Keys.ReleaseKey(c.ctx, held.Identity, held.Key, held.Call)
	}
	if waits, err := c.isSuspended(held.Call); waits || err != nil {
		return false, cmp.Or(err, error(toolroom.Errorf(toolroom.CodeApprovalRequired, "call %s, the first with this idempotency key, is waiting for approval by a person", held.Call).
			WithHint("a person answers with: toolroom approve. Then read the result of the call %s", held.Call).WithCLIHint("toolroom runs wait %s", held.Call)))
	}
	if held.Owner == c.runner.Owner {
		if done := c.runner.keyedCalls.done(held.Call); done != nil {
			select {
			case <-done:
				return true, nil
			case <-c.ctx.Done():
				return false, toolroom.Errorf(toolroom.CodeOf(c.ctx.Err()), "cancelled while call %s, the first with this idempotency key, is still running", held.Call)
			}
		}
	} else if c.runner.OwnerAlive != nil && c.runner.OwnerAlive(held.Owner) {
		select {
		case <-time.After(keyPoll):
			return true, nil
		case <-c.ctx.Done():
			return false, toolroom.Errorf(toolroom.CodeOf(c.ctx.Err()), "cancelled while call %s, the first with this idempotency key, is still running in another process", held.Call)
		}
	}
	return false, nil
}

// releaseDeadKey releases the key of a call whose process died, if the tool may run again.
func (c *claimedCall) releaseDeadKey(held KeyRecord) error {
	asked, err := c.diedAtApproval(held)
	if err != nil {
		return err
	}
	c.mayHaveRun = !asked
	if asked {
		c.earlierClaim = held.Created
	}
	if c.resume == nil && !asked && c.entry.Tool.RepeatGuarantee() == toolroom.GuaranteeNever {
		if !c.hasCallerKey() {
			return toolroom.Errorf(toolroom.CodeConflict, "the process that ran call %s ended before the call did; whether %s acted is unknown", held.Call, c.tool).
				WithHint("check what it did before you call it again")
		}
		e := toolroom.Errorf(toolroom.CodeConflict, "call %s, the first with idempotency key %q, ended without a record; whether %s acted is unknown", held.Call, held.Key, c.tool)
		return e.WithHint("check what it did; then use a new key")
	}
	err = c.runner.Keys.ReleaseKey(c.ctx, held.Identity, held.Key, held.Call)
	if toolroom.CodeOf(err) == toolroom.CodeConflict {
		return nil // another repeat was faster: claimKey waits for that one
	}
	return err
}

// diedAtApproval reports whether the process of the call that holds the key died before that
// call was approved. It is known because an approval is durably marked as used before the tool
// runs. diedAtApproval returns false if no approval is required now or a grant may have covered
// the call: then its progress is not known. It ignores questions that are older than the claim,
// because a grant that has ended since may have covered the attempt that claimed the key.
func (c *claimedCall) diedAtApproval(held KeyRecord) (bool, error) {
	if c.runner.Approvals == nil || c.decision.Effect != toolroom.VerdictConfirm {
		return false, nil
	}
	question, err := c.question()
	if err != nil {
		return false, err
	}
	if standing, err := c.runner.Approvals.FindGrant(c.ctx, question); standing != nil || err != nil {
		return false, err
	}
	all, err := c.runner.Approvals.List(c.ctx, "")
	asked := false
	for _, a := range all {
		if a.Call != held.Call {
			continue
		}
		if !a.Used.IsZero() {
			return false, nil
		}
		asked = asked || !a.Created.Before(held.Created)
	}
	return asked, err
}

// settleKey stores the result for repeats, or releases the key if a repeat may
// run: the tool had no effects, or was interrupted and is safe to repeat. The key
// of a suspended call whose tool has run stays taken, see awaitHolder.
func (o *outcome) settleKey(suspended bool) {
	defer o.runner.keyedCalls.remove(o.request.ID)
	if suspended && o.at.executed != nil {
		return
	}
	ctx := context.WithoutCancel(o.ctx)
	identity := o.request.Identity.Key()
	var err error
	if o.result.Error != nil && o.result.Effects == toolroom.EffectsNone || mayRunAgain(&o.result.Result) {
		err = o.runner.Keys.ReleaseKey(ctx, identity, o.request.IdempotencyKey, o.request.ID)
	} else {
		var encoded []byte
		if encoded, err = jsonx.Marshal(keyResult{o.result.Result, o.result.Raw}); err == nil {
			err = o.runner.Keys.FinishKey(ctx, identity, o.request.IdempotencyKey, o.request.ID, encoded)
		}
	}
	if err != nil {
		o.runner.Log.Error("failed to settle an idempotency key", "call", o.request.ID, "error", err)
	}
}

// restrictionOf returns the part of a record that names the restrictions of its caller. All
// callers of a subject share its keys, so that none runs a call of another again; only those
// with the same restrictions get the recorded result.
func restrictionOf(k KeyRecord) string {
	_, restriction, _ := strings.Cut(k.ArgumentsHash, "\n")
	return restriction
}

// keyRecord returns the record under which the call claims its key.
func (c *call) keyRecord() KeyRecord {
	hash := c.argumentsHash()
	if c.request.Environment != "" && c.request.Environment != DefaultEnvironment {
		hash += " in " + c.request.Environment // where another version may serve
	}
	if owner := identity.Owner(c.request.Identity); owner != c.request.Identity.Key() {
		hash += "\n" + strings.TrimPrefix(owner, c.request.Identity.Key()+"\n")
	}
	return KeyRecord{
		Identity:      c.request.Identity.Key(),
		Key:           c.request.IdempotencyKey,
		Tool:          c.tool,
		ArgumentsHash: hash,
		Call:          c.request.ID,
		Owner:         c.runner.Owner,
	}
}

// keyResult is the stored result of an idempotency key, with the raw message of
// its source.
type keyResult struct {
	toolroom.Result
	Sent json.RawMessage `json:"sent,omitempty"`
}

// canResume reports whether the source can resume this call.
func (c *resolvedCall) canResume() bool {
	resumer, ok := source.As[source.Sandboxed](c.entry.Source)
	return ok && c.parent == nil && resumer.Resumes(c.ctx, c.request.ID)
}

// isSuspended reports whether a call is suspended until a person answers.
func (c *call) isSuspended(call string) (bool, error) {
	if c.runner.Jobs == nil {
		return false, nil
	}
	job, err := c.runner.Jobs.Job(c.ctx, call)
	if toolroom.CodeOf(err) == toolroom.CodeNotFound {
		return false, nil
	}
	return err == nil && job.State == toolroom.JobWaiting, err
}

// keyedCalls is the set of calls with an idempotency key that run in this process.
type keyedCalls struct {
	mu    sync.Mutex
	ended map[string]chan struct{}
}

// add adds a call. leave removes it, unless another run of the call has added it.
func (f *keyedCalls) add(call string) (leave func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ended == nil {
		f.ended = map[string]chan struct{}{}
	}
	if _, in := f.ended[call]; in {
		return func() {}
	}
	f.ended[call] = make(chan struct{})
	return func() { f.remove(call) }
}

func (f *keyedCalls) remove(call string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if done, ok := f.ended[call]; ok {
		close(done)
		delete(f.ended, call)
	}
}

// done returns a channel that is closed when the call ends, or nil if it does not run here.
func (f *keyedCalls) done(call string) <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.ended[call]
}
