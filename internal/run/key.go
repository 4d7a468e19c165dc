package run

import (
	"cmp"
	"context"
	"encoding/json"
	"sync"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/jsonx"
	"github.com/toolroom/toolroom/internal/policy"
	"github.com/toolroom/toolroom/source"
)

// keyPoll is how often a repeat looks whether another process has finished the
// first call.
const keyPoll = 100 * time.Millisecond

// claimKey makes this call the one that runs under its idempotency key, or
// finds the recorded result of the one that did. While the first still runs,
// the repeat waits for it.
func (p *pass) claimKey() error {
	key := p.call.IdempotencyKey
	if key == "" {
		return nil
	}
	if p.Keys == nil {
		return toolroom.Errorf(toolroom.CodeUnsupported, "idempotency keys need a store, and this room has none")
	}
	record := KeyRecord{
		Identity:      p.call.Identity.Key(),
		Key:           key,
		Tool:          p.tool,
		ArgumentsHash: p.argumentsHash(),
		Call:          p.call.ID,
		Owner:         p.Owner,
	}
	gone := "" // a call that holds the key and was not found to run
	for {
		now := p.Now()
		record.Created, record.Expires = now, now.Add(p.Limits.KeyTTL)
		// The flight is entered first, so that a repeat in this process that
		// finds the claim finds the flight as well.
		landed := p.flights.enter(p.call.ID)
		held, claimed, err := p.Keys.ClaimKey(p.ctx, record, now)
		if err != nil || !claimed {
			landed()
		}
		switch {
		case err != nil:
			return err
		case claimed:
			p.keyed = true
			return nil
		case held.Tool != record.Tool || held.ArgumentsHash != record.ArgumentsHash:
			return toolroom.Errorf(toolroom.CodeConflict, "the idempotency key %q stands for another call of %s", key, held.Tool).
				WithHint("use a new key for a new call; repeat a call with the same arguments")
		case len(held.Result) > 0:
			var kept keyResult
			if err := json.Unmarshal(held.Result, &kept); err != nil {
				return toolroom.Errorf(toolroom.CodeInternal, "the recorded result of key %q cannot be read: %w", key, err)
			}
			kept.Result.Raw = kept.Sent
			p.replayed = &kept.Result
			return nil
		}
		waited, err := p.awaitHolder(held)
		switch {
		case err != nil:
			return err
		case waited:
		case gone == held.Call:
			if err := p.freeKey(held); err != nil {
				return err
			}
		default:
			gone = held.Call // it may have ended since its record was read
		}
	}
}

// awaitHolder waits until the call that holds the key may have ended. It is false
// where nobody runs that call.
func (p *pass) awaitHolder(held KeyRecord) (bool, error) {
	if held.Call == p.call.ID && p.resumes() { // this call itself, before it was cut off
		return true, p.Keys.ReleaseKey(p.ctx, held.Identity, held.Key, held.Call)
	}
	if waits, err := p.waits(held.Call); waits || err != nil {
		return false, cmp.Or(err, error(toolroom.Errorf(toolroom.CodeApprovalRequired, "call %s, the first with this idempotency key, is waiting for approval by a person", held.Call).
			WithHint("answer it: toolroom approve; then see: toolroom runs wait %s", held.Call)))
	}
	if held.Owner == p.Owner {
		if done := p.flights.landing(held.Call); done != nil {
			select {
			case <-done:
				return true, nil
			case <-p.ctx.Done():
				return false, toolroom.Errorf(toolroom.CodeOf(p.ctx.Err()), "cancelled while call %s, the first with this idempotency key, still runs", held.Call)
			}
		}
	} else if p.OwnerAlive != nil && p.OwnerAlive(held.Owner) {
		select {
		case <-time.After(keyPoll):
			return true, nil
		case <-p.ctx.Done():
			return false, toolroom.Errorf(toolroom.CodeOf(p.ctx.Err()), "cancelled while call %s, the first with this idempotency key, still runs elsewhere", held.Call)
		}
	}
	return false, nil
}

// freeKey frees the key of a call that died, where the tool may act again.
func (p *pass) freeKey(held KeyRecord) error {
	asked, err := p.onlyAsked(held.Call)
	if err != nil {
		return err
	}
	if p.resume == nil && !asked && p.entry.Tool.RepeatGuarantee() == toolroom.GuaranteeNever {
		e := toolroom.Errorf(toolroom.CodeConflict, "call %s, the first with idempotency key %q, ended without a record; whether %s acted is unknown", held.Call, held.Key, p.tool)
		return e.WithHint("check what it did; then use a new key")
	}
	return p.Keys.ReleaseKey(p.ctx, held.Identity, held.Key, held.Call)
}

// onlyAsked reports whether a call that died came no further than its question
// to a person: an approval is marked as used, durably, before the tool runs.
// Without a question now, or where a rule may have answered for people, it is
// not known how far it came.
func (p *pass) onlyAsked(call string) (bool, error) {
	if p.Desk == nil || p.decision.Effect != policy.Confirm {
		return false, nil
	}
	question, err := p.question()
	if err != nil {
		return false, err
	}
	if standing, err := p.Desk.Granted(p.ctx, question); standing != nil || err != nil {
		return false, err
	}
	all, err := p.Desk.List(p.ctx, "")
	asked := false
	for _, a := range all {
		if a.Call == call && !a.Used.IsZero() {
			return false, nil
		}
		asked = asked || a.Call == call
	}
	return asked, err
}

// settleKey records the result for repeats, or frees the key when a repeat may
// run: the tool never acted, or was cut off and may be repeated.
// The key of a parked call stays taken: see awaitHolder.
func (p *pass) settleKey(parked bool) {
	defer p.flights.leave(p.call.ID)
	if parked {
		return
	}
	ctx := context.WithoutCancel(p.ctx)
	identity := p.call.Identity.Key()
	var err error
	if p.result.Error != nil && p.result.Effects == toolroom.EffectsNone || mayRunAgain(&p.result) {
		err = p.Keys.ReleaseKey(ctx, identity, p.call.IdempotencyKey, p.call.ID)
	} else {
		var encoded []byte
		if encoded, err = jsonx.Marshal(keyResult{p.result, p.result.Raw}); err == nil {
			err = p.Keys.FinishKey(ctx, identity, p.call.IdempotencyKey, p.call.ID, encoded)
		}
	}
	if err != nil {
		p.Log.Error("an idempotency key was not settled", "call", p.call.ID, "error", err)
	}
}

// keyResult is a result under an idempotency key, with what its source sent.
type keyResult struct {
	toolroom.Result
	Sent json.RawMessage `json:"sent,omitempty"`
}

// resumes reports whether the source can go on with this call.
func (p *pass) resumes() bool {
	resumer, ok := source.As[source.Resumer](p.entry.Source)
	return ok && p.parent == nil && resumer.Resumes(p.ctx, p.call.ID)
}

// waits reports whether a call is parked until a person has answered.
func (p *pass) waits(call string) (bool, error) {
	if p.Jobs == nil {
		return false, nil
	}
	job, err := p.Jobs.Job(p.ctx, call)
	if toolroom.CodeOf(err) == toolroom.CodeNotFound {
		return false, nil
	}
	return err == nil && job.State == JobWaiting, err
}

// flights are the keyed calls that run in this process.
type flights struct {
	mu   sync.Mutex
	done map[string]chan struct{}
}

func (f *flights) enter(call string) (leave func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.done == nil {
		f.done = map[string]chan struct{}{}
	}
	if _, in := f.done[call]; !in {
		f.done[call] = make(chan struct{})
	}
	return func() { f.leave(call) }
}

func (f *flights) leave(call string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if done, ok := f.done[call]; ok {
		close(done)
		delete(f.done, call)
	}
}

func (f *flights) landing(call string) <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.done[call]
}
