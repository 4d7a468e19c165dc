// Package receipt keeps the durable record of every call. [Recorder] takes
// receipts from the runner off the hot path and commits them in groups; a
// [Store] holds them, chained by hash.
package receipt

import (
	"context"
	"encoding/json"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/policy"
)

// Receipt is the record of one call. It holds no secret: the runner has
// redacted Arguments, and of the result only a digest and a short preview are
// kept.
type Receipt struct {
	ID       string              `json:"id"`
	Parent   string              `json:"parent,omitempty"`
	Tool     string              `json:"tool"`
	Source   toolroom.SourceKind `json:"source,omitempty"`
	Surface  string              `json:"surface"`
	Identity toolroom.Identity   `json:"identity,omitzero"`
	Session  string              `json:"session,omitempty"`

	// Arguments is a redacted copy; ArgumentsHash is the SHA-256, in hex, of
	// the canonical form of the arguments as they came.
	Arguments     json.RawMessage `json:"arguments,omitempty"`
	ArgumentsHash string          `json:"arguments_hash,omitempty"`
	Key           string          `json:"idempotency_key,omitempty"`

	Status  toolroom.Status  `json:"status"`
	Effects toolroom.Effects `json:"effects,omitempty"`
	Error   *toolroom.Error  `json:"error,omitempty"`
	// Preview is the beginning of the result's text, redacted, at most
	// MaxPreview bytes. ResultHash is the SHA-256, in hex, of the whole value.
	Preview    string   `json:"preview,omitempty"`
	ResultHash string   `json:"result_hash,omitempty"`
	Artifacts  []string `json:"artifacts,omitempty"`

	// Labels say what kind of data or tool the call was about: the tags of the
	// tool and the labels of the result. Reach is what was in reach when the call
	// was decided upon, as "private from files:read".
	Labels []string `json:"labels,omitempty"`
	Reach  []string `json:"reach,omitempty"`

	// Expected is what the call would do, as policy saw it.
	Expected []toolroom.Effect `json:"expected_effects,omitempty"`

	// Connections are those that a program of code mode was refused.
	Connections []toolroom.RefusedConnection `json:"refused_connections,omitempty"`

	// Rule is the policy rule that decided, Decision its outcome, Layers what
	// every layer said, and Isolation the least isolation that they asked for;
	// Approval is the approval that was used.
	Rule      string           `json:"rule,omitempty"`
	Decision  policy.Effect    `json:"decision,omitempty"`
	Layers    []policy.Step    `json:"layers,omitempty"`
	Isolation policy.Isolation `json:"isolation,omitempty"`
	Approval  string           `json:"approval,omitempty"`

	Started time.Time      `json:"started"`
	Usage   toolroom.Usage `json:"usage"`

	// Redacts are the places in the chain of receipts whose details this one
	// records the removal of, and Redacted says that those of this one are gone.
	Redacts  []int64 `json:"redacts,omitempty"`
	Redacted bool    `json:"redacted,omitempty"`

	// Called are the arguments as they came, where ArgumentsHash is yet to be
	// made: the recorder does that, off the path of the call.
	Called json.RawMessage `json:"-"`

	// Refused says that the call was refused for receipts cannot be kept: where
	// many of them wait, the recorder leaves this one out.
	Refused bool `json:"-"`

	// Seq and Hash are set by the store: the place in the chain, and the
	// SHA-256, in hex, over the previous receipt's hash and this receipt.
	Seq  int64  `json:"seq,omitempty"`
	Hash string `json:"hash,omitempty"`
}

// MaxPreview is the most of a result that a receipt shows, in bytes.
const MaxPreview = 512

// Query selects receipts. Zero fields do not restrict.
type Query struct {
	Tool string
	// Subject is the caller's [toolroom.Identity.Key]: "local" for the local
	// operator.
	Subject string
	Surface string
	Status  toolroom.Status
	// Code is that of the error that the call failed with.
	Code   toolroom.Code
	Label  string
	Parent string
	// Since keeps receipts of calls that started at or after it, Until those of
	// calls that started before it.
	Since, Until time.Time
	// AfterSeq keeps receipts after a place in the chain, oldest first; it is
	// how a follower reads on, and FromStart how one begins at the first
	// receipt. Without it the newest come first.
	AfterSeq int64
	// BeforeSeq pages backwards through the newest.
	BeforeSeq int64
	// Limit is the most receipts to return; zero is DefaultLimit, and more than
	// MaxLimit is MaxLimit.
	Limit int
}

// FromStart as Query.AfterSeq reads the chain from its first receipt on.
const FromStart int64 = -1

// Limits of a query, in receipts.
const (
	DefaultLimit = 50
	MaxLimit     = 1000
)

// RowLimit is the most receipts that a store returns for q.
func (q Query) RowLimit() int {
	if q.Limit <= 0 {
		return DefaultLimit
	}
	return min(q.Limit, MaxLimit)
}

// Store holds receipts. Its methods are safe for concurrent use, also by
// several processes on one store.
type Store interface {
	// AppendReceipts adds a group in one durable transaction, in order, and
	// fills in Seq and Hash. After an error none of the group is stored. A call
	// id that is there already is no error: a record is never refused because a
	// caller chose its call ids badly.
	AppendReceipts(ctx context.Context, group []*Receipt) error
	// Receipt is the newest one with a call id, or an error with code not_found.
	Receipt(ctx context.Context, id string) (*Receipt, error)
	// Receipts are those that q selects, none being no error.
	Receipts(ctx context.Context, q Query) ([]*Receipt, error)
	// IntendReceipt stores, durably, that a call is about to run, with what its
	// receipt says so far. The receipt that is appended for the call takes its
	// place.
	IntendReceipt(ctx context.Context, r *Receipt, owner string) error
	// SettleIntents appends the receipts of calls whose owner is no longer alive
	// and that were never appended, after settle has filled in how they ended; n
	// is how many.
	SettleIntents(ctx context.Context, alive func(owner string) bool, settle func(*Receipt)) (n int, err error)
	// ReceiptSpace is how many bytes there is room for where receipts are kept,
	// as far as that is known.
	ReceiptSpace(ctx context.Context) (int64, error)

	// VerifyReceipts walks the chain with [Walk] and reports the first receipt
	// that does not fit, as an error that names its id and seq; n is how many
	// fit. Where old receipts were pruned the chain begins at a checkpoint, which
	// trust is asked about; a nil trust trusts none.
	VerifyReceipts(ctx context.Context, trust func(Checkpoint) error) (n int64, err error)

	// ReceiptRecords are those after a place in the chain as they are stored,
	// oldest first, at most limit.
	ReceiptRecords(ctx context.Context, after int64, limit int) ([]Record, error)
	// ReceiptRange is the first place whose call started at or after since and
	// the last whose call started before until; a zero time does not restrict.
	// With nothing in between, to is before from.
	ReceiptRange(ctx context.Context, since, until time.Time) (from, to int64, err error)
	// ReceiptEnds are where the stored chain begins and ends. The checkpoint is
	// zero where nothing was pruned.
	ReceiptEnds(ctx context.Context) (Checkpoint, Chain, error)

	// RedactReceipts removes the details of all receipts of a call, for good, and
	// appends notice, with Redacts filled in, in the same transaction. A call
	// without receipts is not_found, one whose details are gone a conflict.
	RedactReceipts(ctx context.Context, call string, notice *Receipt) error
	// PruneReceipts removes the oldest receipts up to the first whose call
	// started at or after before, and leaves the checkpoint that sign makes; n is
	// how many. With none to remove it does nothing.
	PruneReceipts(ctx context.Context, before time.Time, sign func(*Checkpoint) error) (n int64, err error)
}
