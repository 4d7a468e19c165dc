package approval

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/toolroom/toolroom"
)

// DeskOptions tune a Desk; the zero value is what a server wants.
type DeskOptions struct {
	// TTL is how long a question waits for an answer; default 15 min.
	TTL time.Duration
	// Poll is how often Wait looks for an answer that another process took;
	// default 200 ms.
	Poll time.Duration
	// SessionTTL is how long a yes for a session lasts at most; default 12 h.
	SessionTTL time.Duration
	// Terms are those of questions about a tool; nil is the zero Terms for all.
	Terms func(tool string) Terms
	// Key seals links, [KeyBytes] long. All processes of one store have the same;
	// default one of this desk alone.
	Key []byte
	// Now is the clock; default time.Now.
	Now func() time.Time
}

// Desk is where the runner asks and people answer. Questions live in the store,
// so both may be in different processes and survive a restart. Make one with
// NewDesk; its methods are safe for concurrent use.
type Desk struct {
	store Store
	opts  DeskOptions

	mu       sync.Mutex
	answered chan struct{}   // closed and replaced with each answer given here
	waiting  map[string]int  // calls of this process that wait, by approval
	ending   <-chan struct{} // closed when this process begins to end
}

// NewDesk makes a desk over store.
func NewDesk(store Store, opts DeskOptions) *Desk {
	if opts.TTL <= 0 {
		opts.TTL = 15 * time.Minute
	}
	if opts.Poll <= 0 {
		opts.Poll = 200 * time.Millisecond
	}
	if opts.SessionTTL <= 0 {
		opts.SessionTTL = 12 * time.Hour
	}
	if len(opts.Key) == 0 {
		opts.Key = NewKey()
	}
	if opts.Terms == nil {
		opts.Terms = func(string) Terms { return Terms{} }
	}
	if opts.Now == nil {
		opts.Now = time.Now
	}
	return &Desk{store: store, opts: opts, answered: make(chan struct{}), waiting: map[string]int{}}
}

// NewKey makes a key for DeskOptions.
func NewKey() []byte {
	key := make([]byte, KeyBytes)
	rand.Read(key) // never fails
	return key
}

// KeepOnceDone makes questions outlive the process: a wait that is given up
// after done is closed leaves its question open, to be answered for a repeat of
// the call after the restart.
func (d *Desk) KeepOnceDone(done <-chan struct{}) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ending = done
}

// Ending reports whether this process has begun to end: see [Desk.KeepOnceDone].
func (d *Desk) Ending() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	select {
	case <-d.ending:
		return true
	default:
		return false
	}
}

// Terms are those under which a question about a tool would be put.
func (d *Desk) Terms(tool string) Terms { return d.opts.Terms(tool) }

// Request asks a question, unless one about the same call (the same Digest) is
// open: then it returns that one, which may be approved already. The desk fills
// in ID, Terms, State and Created, and Expires when it is zero.
func (d *Desk) Request(ctx context.Context, a Approval) (*Approval, error) {
	a.ID = newID("apr")
	a.Terms = d.opts.Terms(a.Tool)
	a.State = Pending
	a.Created = d.opts.Now()
	if a.Expires.IsZero() {
		a.Expires = a.Created.Add(cmp.Or(a.TTL, d.opts.TTL))
	}
	return d.store.CreateApproval(ctx, &a)
}

func newID(kind string) string { return kind + "_" + strings.ToLower(rand.Text()[:12]) }

// Granted is the standing permission that answers a question about a call in
// advance, nil where there is none. Of a it reads what Request stores.
func (d *Desk) Granted(ctx context.Context, a Approval) (*Grant, error) {
	grants, err := d.store.Grants(ctx, a.Tool, Caller(a.Identity), d.opts.Now())
	if err != nil {
		return nil, err
	}
	a.Terms = d.opts.Terms(a.Tool)
	for _, g := range grants {
		if g.Covers(&a) {
			return g, nil
		}
	}
	return nil, nil
}

// Grants lists the standing permissions, oldest first.
func (d *Desk) Grants(ctx context.Context) ([]*Grant, error) {
	return d.store.Grants(ctx, "", "", d.opts.Now())
}

// RemoveGrant takes a standing permission back: from now on the caller is asked
// again. An unknown one is not_found.
func (d *Desk) RemoveGrant(ctx context.Context, id string) error {
	return d.store.RemoveGrant(ctx, id)
}

// Notified records that a webhook has been told of a question.
func (d *Desk) Notified(ctx context.Context, id, hook string) error {
	return d.store.NotifiedApproval(ctx, id, hook)
}

// Sweep removes what ended before a time.
func (d *Desk) Sweep(ctx context.Context, before time.Time) (int64, error) {
	return d.store.SweepApprovals(ctx, before)
}

// Abandon closes a question whose call was given up, unless another call of
// this process waits for the same answer, or the process itself ends.
func (d *Desk) Abandon(ctx context.Context, id string) error {
	d.mu.Lock()
	shared := d.waiting[id] > 0
	d.mu.Unlock()
	if d.Ending() {
		return nil
	}
	if shared {
		return nil
	}
	return d.store.CancelApproval(ctx, id, d.opts.Now())
}

// Wait returns the approval once a person has approved it. When it is declined,
// cancelled or expires, the error has the code approval_declined, cancelled or
// approval_expired and says who and why. The end of ctx ends the wait, not the
// question; see Abandon.
func (d *Desk) Wait(ctx context.Context, id string) (*Approval, error) {
	d.await(id, 1)
	defer d.await(id, -1)
	for {
		answered := d.nextAnswer()
		pause := d.opts.Poll
		now := d.opts.Now()
		a, err := d.store.Approval(ctx, id, now)
		switch {
		case err != nil && ctx.Err() == nil && toolroom.AsError(err).Retryable:
			// A store that is busy for a moment must not fail a call for which
			// a person may take a quarter of an hour.
		case err != nil:
			return nil, fmt.Errorf("wait for approval %s: %w", id, err)
		case a.State == Approved:
			return a, nil
		case a.State != Pending:
			return nil, a.Err()
		default:
			pause = min(pause, a.Expires.Sub(now))
		}
		select {
		case <-answered:
		case <-time.After(pause):
		case <-ctx.Done():
			return nil, fmt.Errorf("wait for approval %s: %w", id, ctx.Err())
		}
	}
}

func (d *Desk) await(id string, change int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.waiting[id] += change
	if d.waiting[id] == 0 {
		delete(d.waiting, id)
	}
}

// Answer takes an answer to a pending approval, as [Approval.Decide] says, and
// wakes the call that waits for it. An answer for more than this one call
// becomes a [Grant].
func (d *Desk) Answer(ctx context.Context, id string, answer Answer) (*Approval, error) {
	a, err := d.store.AnswerApproval(ctx, id, answer, d.opts.Now(), func(a *Approval) *Grant {
		return grantFor(a, newID("apg"), d.opts.SessionTTL)
	})
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	close(d.answered)
	d.answered = make(chan struct{})
	return a, nil
}

// Use takes the answer for a call, as [Approval.Use] says. A second use of an
// approved one is a conflict.
func (d *Desk) Use(ctx context.Context, id string) error {
	return d.store.UseApproval(ctx, id, d.opts.Now())
}

// Get is one approval, or an error with code not_found.
func (d *Desk) Get(ctx context.Context, id string) (*Approval, error) {
	return d.store.Approval(ctx, id, d.opts.Now())
}

// List is the approvals in a state, oldest first; empty means all.
func (d *Desk) List(ctx context.Context, state State) ([]*Approval, error) {
	return d.store.Approvals(ctx, state, d.opts.Now())
}

func (d *Desk) nextAnswer() <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.answered
}
