package approval

import (
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
	answered chan struct{} // closed and replaced with each answer given here
}

// NewDesk makes a desk over store.
func NewDesk(store Store, opts DeskOptions) *Desk {
	if opts.TTL <= 0 {
		opts.TTL = 15 * time.Minute
	}
	if opts.Poll <= 0 {
		opts.Poll = 200 * time.Millisecond
	}
	if opts.Now == nil {
		opts.Now = time.Now
	}
	return &Desk{store: store, opts: opts, answered: make(chan struct{})}
}

// Request asks a question, unless one about the same call (the same Digest) is
// open: then it returns that one, which may be approved already. The desk fills
// in ID, State and Created, and Expires when it is zero.
func (d *Desk) Request(ctx context.Context, a Approval) (*Approval, error) {
	a.ID = "apr_" + strings.ToLower(rand.Text()[:12])
	a.State = Pending
	a.Created = d.opts.Now()
	if a.Expires.IsZero() {
		a.Expires = a.Created.Add(d.opts.TTL)
	}
	return d.store.CreateApproval(ctx, &a)
}

// Wait returns the approval once a person has approved it. When it is declined
// or expires, the error has the code approval_declined or approval_expired and
// says who and why. The end of ctx ends the wait, not the question.
func (d *Desk) Wait(ctx context.Context, id string) (*Approval, error) {
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

// Answer decides a pending approval and wakes the call that waits for it. An
// answered approval is a conflict, an expired one approval_expired.
func (d *Desk) Answer(ctx context.Context, id string, answer Answer) (*Approval, error) {
	a, err := d.store.AnswerApproval(ctx, id, answer, d.opts.Now())
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	close(d.answered)
	d.answered = make(chan struct{})
	return a, nil
}

// Use takes an approved approval for a run. An approval serves once: a second
// use is a conflict.
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
