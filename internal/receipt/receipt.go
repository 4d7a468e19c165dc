// Package receipt keeps the durable record of every call. [Recorder] takes
// receipts from the runner off the hot path and commits them in groups; a
// [Store] holds them, chained by hash.
package receipt

import (
	"context"
	"encoding/json"
	"time"

	"github.com/toolroom/toolroom"
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

	// Labels are on the result. Reach is what was in reach when the call was
	// decided upon, as "private from files:read".
	Labels []string `json:"labels,omitempty"`
	Reach  []string `json:"reach,omitempty"`

	// Rule is the policy rule that decided; Approval the approval that was used.
	Rule     string `json:"rule,omitempty"`
	Approval string `json:"approval,omitempty"`

	Started time.Time      `json:"started"`
	Usage   toolroom.Usage `json:"usage"`

	// Complete fills in what takes time to make, such as hashes. The recorder
	// calls it once, off the path of the call.
	Complete func(*Receipt) `json:"-"`

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
	Parent  string
	// Since keeps receipts of calls that started at or after it.
	Since time.Time
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
	// VerifyReceipts walks the chain with [Chain.Check] and [Chain.CheckEnd] and
	// reports the first receipt that does not fit, as an error that names its
	// id and seq; n is how many fit.
	VerifyReceipts(ctx context.Context) (n int64, err error)
}
