// Package run is the one path of every call: resolve, validate input, policy,
// approval, execute, normalise, validate output, shape, receipt. Read pass.go
// for the steps in their order and execute.go for what stands around the tool.
// Every surface turns its input into a [toolroom.Call] and gives it to
// [Runner.Run], [Runner.Stream], [Runner.Batch], [Runner.Chain] or
// [Runner.Submit].
package run

import (
	"context"
	"io"
	"log/slog"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/approval"
	"github.com/toolroom/toolroom/internal/catalog"
	"github.com/toolroom/toolroom/internal/policy"
	"github.com/toolroom/toolroom/internal/receipt"
	"github.com/toolroom/toolroom/internal/secret"
	"github.com/toolroom/toolroom/internal/spending"
	"github.com/toolroom/toolroom/internal/taint"
	"github.com/toolroom/toolroom/source"
)

// Limits bound calls; zero fields have the defaults named.
type Limits struct {
	// Timeout is the run time of a call that asks for none (30 s); MaxTimeout
	// is the most a caller may ask for (10 min) where a tool has no ceiling of
	// its own.
	Timeout    time.Duration
	MaxTimeout time.Duration
	// ApprovalWait is how long a caller is held while a person decides (10 min).
	// After it the call ends with approval_required; the question stays open.
	ApprovalWait time.Duration
	// OutputBytes is how much of a result is shown (51,200); the whole stays
	// readable through its handle.
	OutputBytes int
	// InputBytes is the largest arguments document (4 MiB).
	InputBytes int
	// KeyTTL is how long an idempotency key is remembered (24 h).
	KeyTTL time.Duration

	Retry   RetryLimits
	Breaker BreakerLimits
	Rate    RateLimits
	Cache   CacheLimits
	// Concurrency is how many calls of one tool may run at once where the tool
	// does not say; zero is unlimited.
	Concurrency int
}

func (l Limits) withDefaults() Limits {
	set(&l.Timeout, 30*time.Second)
	set(&l.MaxTimeout, 10*time.Minute)
	set(&l.ApprovalWait, 10*time.Minute)
	set(&l.OutputBytes, 51_200)
	set(&l.InputBytes, 4<<20)
	set(&l.KeyTTL, 24*time.Hour)
	set(&l.Retry.Attempts, 3)
	set(&l.Retry.Base, 100*time.Millisecond)
	set(&l.Retry.Max, 30*time.Second)
	set(&l.Breaker.Failures, 5)
	set(&l.Breaker.Delay, 1500*time.Millisecond)
	set(&l.Cache.TTL, 5*time.Minute)
	set(&l.Cache.Entries, 1000)
	l.Cache.TTL = min(l.Cache.TTL, maxCacheTTL)
	return l
}

func set[T comparable](field *T, fallback T) {
	var zero T
	if *field == zero {
		*field = fallback
	}
}

// Receipts takes the record of every call; [receipt.Recorder] is one.
type Receipts interface {
	// Append takes a receipt. It is durable soon after, or Ready says why not.
	Append(ctx context.Context, r *receipt.Receipt) error
	// Ready reports why receipts cannot be kept now; calls are refused then.
	Ready() error
	// Intend makes it durable that a call is about to run in the process that
	// owner names. An error means that it must not.
	Intend(ctx context.Context, r *receipt.Receipt, owner string) error
	// Flush returns when everything appended before is durable.
	Flush(ctx context.Context) error
}

// Artifacts keeps what is too large to show; [artifact.Store] is one.
type Artifacts interface {
	// PutResult keeps a whole result for an owner and returns its handle. A
	// full store is an error with code resource_limit.
	PutResult(ctx context.Context, owner, name, mimeType string, r io.Reader) (toolroom.Artifact, error)
}

// Options are the parts of a Runner. Catalog is required. Without Receipts,
// Artifacts, Desk, Keys or Jobs the runner works and refuses what needs them.
type Options struct {
	Catalog   *catalog.Catalog
	Policy    policy.Decider
	Receipts  Receipts
	Artifacts Artifacts
	Desk      *approval.Desk
	Keys      KeyStore
	Jobs      JobStore
	Bus       *Bus
	Limits    Limits
	// Discover is asked when no tool has the spelling of a call: sources that
	// have not been listed yet may know it. The error says why the source that
	// the spelling names cannot be listed. It may be nil.
	Discover func(ctx context.Context, spelling string) error
	// Preview tells people who are asked about a call what it would do; nil tells
	// them nothing but the arguments.
	Preview func(ctx context.Context, tool *toolroom.Tool, from source.Source, req *source.Request) (source.Preview, error)
	// MustRecord selects tools that run only after it is durable that they do;
	// nil selects none. The receipts of all others are durable soon after.
	MustRecord func(tool *toolroom.Tool) bool
	// Home is what ~ stands for in paths; empty is not known.
	Home string
	// Secrets masks known secrets in everything that leaves a call: results,
	// errors, events, and what is recorded. Nil masks nothing.
	Secrets *secret.Masker
	// Trust says how far a tool is trusted; nil trusts all.
	Trust func(*toolroom.Tool) Trust
	// Taints remembers what sessions have read; nil remembers nothing beyond one
	// run.
	Taints taint.Store
	// Spending holds calls to what they may spend; nil lets them.
	Spending *spending.Book
	// Scopes are those that a caller who is limited by scopes needs for a tool;
	// nil needs none.
	Scopes func(*toolroom.Tool) []string
	// OwnerAlive tells whether another process that took an idempotency key
	// still runs; nil takes every other process for dead. Owner names this one.
	OwnerAlive func(owner string) bool
	Owner      string
	Log        *slog.Logger
	// Now is the clock; nil is time.Now.
	Now func() time.Time
}

// Runner runs calls. Its methods are safe for concurrent use.
type Runner struct {
	Options
	execute executor
	flights flights
}

// New makes a Runner.
func New(o Options) *Runner {
	o.Limits = o.Limits.withDefaults()
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
	r.execute = newExecutor(r.Limits, r.Now)
	return r
}

// Visible reports whether who may see the entry: everything but what policy
// denies. Lists, search and calls agree because they ask the same decider.
func (r *Runner) Visible(who toolroom.Identity) func(*catalog.Entry) bool {
	return func(e *catalog.Entry) bool {
		return r.Policy.Decide(context.Background(), policy.Request{Tool: &e.Tool, Who: who}).Effect != policy.Deny
	}
}

// Run runs one call to its end. It always returns a result; a failure is in
// Result.Error. Cancelling ctx ends the work itself.
//
// A call made with the ctx that a tool was given is a child of that tool's
// call: it has its identity, deadline, budget and trace.
func (r *Runner) Run(ctx context.Context, call toolroom.Call) *toolroom.Result {
	return r.pass(ctx, call, Waiting{})
}
