package run

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/base32"
	"encoding/binary"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/approval"
	"github.com/toolroom/toolroom/internal/catalog"
	"github.com/toolroom/toolroom/internal/policy"
	"github.com/toolroom/toolroom/internal/receipt"
	"github.com/toolroom/toolroom/internal/secret"
	"github.com/toolroom/toolroom/internal/taint"
	"github.com/toolroom/toolroom/source"
)

// Limits bounds calls. Zero fields have the defaults in parentheses.
type Limits struct {
	// Timeout is the run time of a call that does not set one (30 s). MaxTimeout is
	// the longest that a caller may set (10 min) if the tool has no maximum of its
	// own.
	Timeout    time.Duration
	MaxTimeout time.Duration
	// ApprovalWait is how long a call waits for a person's decision (10 min). Then
	// it ends with approval_required; the question stays open.
	ApprovalWait time.Duration
	// OutputBytes is the length to which a result is truncated (51,200); the whole
	// stays readable under its handle.
	OutputBytes int
	// InputBytes is the largest arguments document (4 MiB).
	InputBytes int
	// KeyTTL is how long an idempotency key is remembered (24 h).
	KeyTTL time.Duration

	Retry   RetryLimits
	Breaker BreakerLimits
	Rate    RateLimits
	Cache   CacheLimits
	// Concurrency is how many calls of one tool may run at once if the tool does
	// not set a limit; zero means unlimited.
	Concurrency int
}

func (l Limits) withDefaults() Limits {
	l.Timeout = cmp.Or(l.Timeout, 30*time.Second)
	l.MaxTimeout = cmp.Or(l.MaxTimeout, 10*time.Minute)
	l.ApprovalWait = cmp.Or(l.ApprovalWait, 10*time.Minute)
	l.OutputBytes = cmp.Or(l.OutputBytes, 51_200)
	l.InputBytes = cmp.Or(l.InputBytes, 4<<20)
	l.KeyTTL = cmp.Or(l.KeyTTL, 24*time.Hour)
	l.Retry.Attempts = cmp.Or(l.Retry.Attempts, 3)
	l.Retry.Base = cmp.Or(l.Retry.Base, 100*time.Millisecond)
	l.Retry.Max = cmp.Or(l.Retry.Max, 30*time.Second)
	l.Breaker.Failures = cmp.Or(l.Breaker.Failures, 5)
	l.Breaker.Delay = cmp.Or(l.Breaker.Delay, 1500*time.Millisecond)
	l.Cache.TTL = cmp.Or(l.Cache.TTL, 5*time.Minute)
	l.Cache.Entries = cmp.Or(l.Cache.Entries, 1000)
	l.Cache.TTL = min(l.Cache.TTL, maxCacheTTL)
	return l
}

// Receipts stores the receipt of every call. [receipt.Recorder] implements it.
type Receipts interface {
	// Append stores a receipt. The call returns its result after Append returns.
	Append(ctx context.Context, r *receipt.Draft) error
	// Ready returns an error if receipts cannot be stored now; then calls are
	// refused.
	Ready() error
	// Intend durably records that a call is about to run in the process owner. If
	// it returns an error, the call must not run.
	Intend(ctx context.Context, r *toolroom.Receipt, owner string) error
	// Flush returns when all receipts appended before are durable.
	Flush(ctx context.Context) error
}

// Artifacts stores results that are too large to show. [artifact.Store]
// implements it.
type Artifacts interface {
	// PutResult stores a result for an owner and returns its handle. If the result
	// is too large to store, PutResult stores only its beginning, as the size of the
	// artifact shows; with whole it returns an error with code resource_limit.
	PutResult(ctx context.Context, owner, name, mimeType string, data []byte, whole bool) (toolroom.Artifact, error)
}

// Tokens knows which bearer tokens are valid. [token.Verifier] implements it.
type Tokens interface {
	// Check returns an error once the token with an id was revoked or has expired. Each
	// call asks, so it answers from memory.
	Check(ctx context.Context, id string) error
}

// Options configure a Runner. Catalog is required. Without Receipts, Artifacts,
// Approvals, Keys or Jobs the runner works, but refuses calls that need them.
type Options struct {
	Catalog   *catalog.Catalog
	Policy    policy.Decider
	Receipts  Receipts
	Artifacts Artifacts
	Approvals *approval.Service
	Keys      KeyStore
	Jobs      JobStore
	Bus       *Bus
	Limits    Limits
	// Discover is called when no tool matches the spelling in a call, because a
	// source that has not been listed yet may have it. The error says why the source
	// named in the spelling cannot be listed. Discover may be nil.
	Discover func(ctx context.Context, spelling string) error
	// Releases chooses the versions of released tools; nil means that there are none.
	Releases Releases
	// OnServed is called with each call of a released tool and its result, after its receipt
	// was recorded and before the result is returned. It must not change either, and must
	// return at once. It may be nil.
	OnServed func(call toolroom.Call, tool *toolroom.Tool, result *toolroom.Result)
	// Preview describes a call for the people who are asked to approve it. If it is
	// nil, they see the arguments only.
	Preview func(ctx context.Context, tool *toolroom.Tool, from source.Source, req *source.Request) (source.Preview, error)
	// MustRecord selects tools that run only after the intent to run them is
	// durable; nil selects none. The receipts of all other tools are stored before
	// the result is returned.
	MustRecord func(tool *toolroom.Tool) bool
	// Home is the directory that ~ means in paths; empty means unknown.
	Home string
	// Secrets redacts known secrets in everything that leaves a call: results,
	// errors, events, and what is recorded. Nil redacts nothing.
	Secrets *secret.Redactor
	// Trust returns how far a tool is trusted; nil trusts all tools.
	Trust func(*toolroom.Tool) Trust
	// Taints stores the taint labels of sessions. If it is nil, labels do not
	// outlive a run.
	Taints taint.Store
	// Spending limits what calls spend; nil means no limit.
	Spending *policy.SpendingLedger
	// Tokens checks the tokens of callers; nil takes all to be valid.
	Tokens Tokens
	// Scopes returns the scopes that a caller with limited scopes needs for a tool;
	// nil requires none.
	Scopes func(*toolroom.Tool) []string
	// OwnerAlive reports whether another process that took an idempotency key is
	// still running; nil treats every other process as dead. Owner identifies this
	// process.
	OwnerAlive func(owner string) bool
	Owner      string
	Log        *slog.Logger
	// Now is the clock; nil is time.Now.
	Now func() time.Time
}

// Runner runs calls. Its methods are safe for concurrent use.
type Runner struct {
	Options
	limits     atomic.Pointer[activeLimits]
	keyedCalls keyedCalls
	executions executions
}

// activeLimits are the limits in force and the decorators that enforce them.
type activeLimits struct {
	Limits
	execute executor
}

// New returns a Runner.
func New(o Options) *Runner {
	if o.Policy == nil {
		o.Policy = policy.AllowAll{}
	}
	if o.Bus == nil {
		o.Bus = &Bus{}
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	r := &Runner{Options: o}
	r.SetLimits(o.Limits)
	return r
}

// Limits returns the limits of calls.
func (r *Runner) Limits() Limits { return r.limits.Load().Limits }

// SetLimits changes the limits of the calls that begin from now on. Circuit breakers,
// rates and caches begin anew.
func (r *Runner) SetLimits(l Limits) {
	l = l.withDefaults()
	r.limits.Store(&activeLimits{l, newExecutor(l, r.Now)})
}

// Visible returns a function that reports whether who may see an entry in their own environment.
// See [Runner.View].
func (r *Runner) Visible(who toolroom.Identity) func(*catalog.Entry) bool {
	return r.View(who, "").Visible
}

// View returns the view that who has of an environment: every tool that the environment serves
// and policy does not deny, in the version that would serve a call. Lists, search and calls
// agree because they use the same decider.
func (r *Runner) View(who toolroom.Identity, environment string) catalog.View {
	environment = cmp.Or(environment, who.Environment)
	as := func(e *catalog.Entry) *catalog.Entry { return e }
	if r.Releases != nil {
		now := r.Releases.Snapshot()
		as = func(e *catalog.Entry) *catalog.Entry {
			served, err := now.Serve(&toolroom.Call{Tool: e.ID, Environment: environment, Identity: who}, e)
			switch {
			case err != nil:
				return nil
			case served != nil:
				return served
			}
			return e
		}
	}
	visible := func(e *catalog.Entry) bool {
		e = as(e)
		return e != nil && r.Allowed(who, e)
	}
	return catalog.View{Visible: visible, As: as}
}

// Allowed reports whether policy allows who to call an entry. If the tool has versions, the
// entry must be that of a version.
func (r *Runner) Allowed(who toolroom.Identity, e *catalog.Entry) bool {
	return r.Policy.Decide(context.Background(), policy.Request{Tool: &e.Tool, Who: who}).Effect != toolroom.VerdictDeny
}

// idText is Crockford's base32 in lower case. It sorts like the bytes and has no letters that
// people confuse.
var idText = base32.NewEncoding("0123456789abcdefghjkmnpqrstvwxyz").WithPadding(base32.NoPadding)

// maxIDText is enough for a prefix and 24 letters of base32.
const maxIDText = 40

// newID returns an id that sorts by time: 48 bits of milliseconds and 72 random bits.
func newID(prefix string, now time.Time) string {
	var b [15]byte
	binary.BigEndian.PutUint64(b[:8], uint64(now.UnixMilli())<<16)
	rand.Read(b[6:])
	var text [maxIDText]byte
	return string(idText.AppendEncode(append(append(text[:0], prefix...), '_'), b[:]))
}
