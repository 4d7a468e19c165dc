package approval

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/toolroom/toolroom"
)

// Options configure a [Service]. The zero value is ready to use.
type Options struct {
	// TTL is how long a question stays open; default 15 min.
	TTL time.Duration
	// Poll is how often Wait checks for answers from other processes; default
	// 200 ms.
	Poll time.Duration
	// SessionTTL is the longest time that a grant for a session lasts; default 12 h.
	SessionTTL time.Duration
	// Terms returns the terms of questions about a tool; nil returns the zero Terms.
	Terms func(tool string) toolroom.ApprovalTerms
	// Key signs links and is [KeyBytes] long. All processes of one store must share
	// it; the default is a random key of this service alone.
	Key []byte
	// Now is the clock; default time.Now.
	Now func() time.Time
}

// Service takes the runner's questions and people's answers. It keeps both in
// its store, so that they can come from different processes and survive a
// restart. Create one with [New]. Its methods are safe for concurrent use.
type Service struct {
	store Store
	opts  Options

	mu              sync.Mutex
	answered        chan struct{}   // closed and replaced with each answer to this service
	waiting         map[string]int  // number of waiting calls in this process, by approval
	ending          <-chan struct{} // closed when this process begins to shut down
	expiredUntil    time.Time       // the expiry of what expired before is final; see Expire
	ttl, sessionTTL time.Duration
}

// New returns a Service that uses store.
func New(store Store, opts Options) *Service {
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
		opts.Terms = func(string) toolroom.ApprovalTerms { return toolroom.ApprovalTerms{} }
	}
	if opts.Now == nil {
		opts.Now = time.Now
	}
	return &Service{store: store, opts: opts, answered: make(chan struct{}), waiting: map[string]int{}, ttl: opts.TTL, sessionTTL: opts.SessionTTL}
}

// SetTTL changes [Options.TTL] and [Options.SessionTTL] for the questions and grants from
// now on. Both must be positive.
func (s *Service) SetTTL(question, session time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ttl, s.sessionTTL = question, session
}

// ttls returns how long a question stays open, and how long a grant for a session lasts.
func (s *Service) ttls() (question, session time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ttl, s.sessionTTL
}

// NewKey returns a random [Options.Key].
func NewKey() []byte {
	key := make([]byte, KeyBytes)
	rand.Read(key) // never fails
	return key
}

// KeepQuestionsAfter makes Abandon leave questions open once done is closed, so that they
// outlive the process and can be answered for a repeat of the call after a restart.
func (s *Service) KeepQuestionsAfter(done <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ending = done
}

// Ending reports whether this process has begun to shut down, see
// [Service.KeepQuestionsAfter].
func (s *Service) Ending() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-s.ending:
		return true
	default:
		return false
	}
}

// Terms returns the terms of questions about a tool.
func (s *Service) Terms(tool string) toolroom.ApprovalTerms { return s.opts.Terms(tool) }

// Request creates an approval. If an approval of the same call (the same Digest)
// is open, Request returns that one, which may already be approved. Request sets
// ID, Terms, State and Created, and Expires if it is zero.
func (s *Service) Request(ctx context.Context, a toolroom.Approval) (*toolroom.Approval, error) {
	a.ID = newID("apr")
	a.ApprovalTerms = s.opts.Terms(a.Tool)
	a.State = toolroom.ApprovalPending
	a.Created = s.opts.Now()
	if a.Expires.IsZero() {
		ttl, _ := s.ttls()
		a.Expires = a.Created.Add(cmp.Or(a.TTL, ttl))
	}
	return s.store.CreateApproval(ctx, &a)
}

func newID(kind string) string { return kind + "_" + strings.ToLower(rand.Text()[:12]) }

// FindGrant returns the grant that covers the call of a, or nil if there is none. It reads
// the same fields of a that Request stores.
func (s *Service) FindGrant(ctx context.Context, a toolroom.Approval) (*toolroom.Grant, error) {
	grants, err := s.store.Grants(ctx, a.Tool, Caller(a.Identity), s.opts.Now())
	if err != nil {
		return nil, err
	}
	a.ApprovalTerms = s.opts.Terms(a.Tool)
	for _, g := range grants {
		if Covers(g, &a) {
			return g, nil
		}
	}
	return nil, nil
}

// Grants returns all grants, oldest first.
func (s *Service) Grants(ctx context.Context) ([]*toolroom.Grant, error) {
	return s.store.Grants(ctx, "", "", s.opts.Now())
}

// RemoveGrant revokes a grant: later calls need an approval again. It returns
// not_found for an unknown id.
func (s *Service) RemoveGrant(ctx context.Context, id string) error {
	return s.store.RemoveGrant(ctx, id)
}

// RecordNotified records that a webhook has received a question.
func (s *Service) RecordNotified(ctx context.Context, id, hook string) error {
	return s.store.MarkApprovalNotified(ctx, id, hook)
}

// Expire makes the expiry of approvals and grants final, even if the clock is set back.
func (s *Service) Expire(ctx context.Context) error {
	now := s.opts.Now()
	if err := s.store.ExpireApprovals(ctx, now); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if now.After(s.expiredUntil) {
		s.expiredUntil = now
	}
	return nil
}

// finalizeExpired calls Expire if one of these approvals is newly expired. It ignores errors:
// the next reader of the approval tries again.
func (s *Service) finalizeExpired(ctx context.Context, list ...*toolroom.Approval) {
	s.mu.Lock()
	until := s.expiredUntil
	s.mu.Unlock()
	if slices.ContainsFunc(list, func(a *toolroom.Approval) bool {
		return a != nil && a.State == toolroom.ApprovalExpired && a.Expires.After(until)
	}) {
		_ = s.Expire(ctx)
	}
}

// Sweep removes approvals and grants that ended before a time.
func (s *Service) Sweep(ctx context.Context, before time.Time) (int64, error) {
	return s.store.SweepApprovals(ctx, before)
}

// Abandon cancels an approval because its call was given up, unless another call
// in this process waits for the same answer or the process is shutting down.
func (s *Service) Abandon(ctx context.Context, id string) error {
	s.mu.Lock()
	shared := s.waiting[id] > 0
	s.mu.Unlock()
	if s.Ending() {
		return nil
	}
	if shared {
		return nil
	}
	return s.store.CancelApproval(ctx, id, s.opts.Now())
}

// Wait waits until an approval is approved and returns it. If it is declined,
// cancelled or expires, Wait returns an error with code approval_declined,
// cancelled or approval_expired that says who decided and why. The end of ctx
// ends the wait and leaves the question open; see Abandon.
func (s *Service) Wait(ctx context.Context, id string) (*toolroom.Approval, error) {
	s.addWaiting(id, 1)
	defer s.addWaiting(id, -1)
	for {
		answered := s.nextAnswer()
		pause := s.opts.Poll
		now := s.opts.Now()
		a, err := s.store.Approval(ctx, id, now)
		s.finalizeExpired(ctx, a)
		switch {
		case err != nil && ctx.Err() == nil && toolroom.AsError(err).Retryable:
			// A briefly busy store must not fail a call that may wait a quarter
			// of an hour for a person.
		case err != nil:
			return nil, fmt.Errorf("wait for approval %s: %w", id, err)
		case a.State == toolroom.ApprovalApproved:
			return a, nil
		case a.State != toolroom.ApprovalPending:
			return nil, Err(a)
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

// addWaiting changes the number of calls that wait for an approval.
func (s *Service) addWaiting(id string, change int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waiting[id] += change
	if s.waiting[id] == 0 {
		delete(s.waiting, id)
	}
}

// Answer records an answer to a pending approval, see [Decide], and
// wakes the waiting call. An approval of more than this one call becomes a
// [toolroom.Grant].
func (s *Service) Answer(ctx context.Context, id string, answer toolroom.Answer) (*toolroom.Approval, error) {
	a, err := s.store.AnswerApproval(ctx, id, answer, s.opts.Now(), func(a *toolroom.Approval) *toolroom.Grant {
		_, ttl := s.ttls()
		return grantFor(a, newID("apg"), ttl)
	})
	if toolroom.CodeOf(err) == toolroom.CodeApprovalExpired {
		_ = s.Expire(ctx)
	}
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.answered)
	s.answered = make(chan struct{})
	return a, nil
}

// Use uses the answer for a call, see [Use]. A second use of an approved
// one is a conflict.
func (s *Service) Use(ctx context.Context, id string) error {
	return s.store.UseApproval(ctx, id, s.opts.Now())
}

// Get returns one approval, or an error with code not_found.
func (s *Service) Get(ctx context.Context, id string) (*toolroom.Approval, error) {
	a, err := s.store.Approval(ctx, id, s.opts.Now())
	s.finalizeExpired(ctx, a)
	return a, err
}

// List returns the approvals in a state, oldest first; an empty state means all.
func (s *Service) List(ctx context.Context, state toolroom.ApprovalState) ([]*toolroom.Approval, error) {
	list, err := s.store.Approvals(ctx, state, s.opts.Now())
	s.finalizeExpired(ctx, list...)
	return list, err
}

func (s *Service) nextAnswer() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.answered
}
