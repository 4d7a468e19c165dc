// Package receipt stores the durable record of every call. A [Recorder] accepts
// receipts from the runner and commits them in groups off the hot path. A [Store]
// holds them, chained by hash.
//
// Receipts leave a room so that somebody else can check them: signed exports, signed
// checkpoints where old receipts were removed, and redactions. Begin with [OpenSigningKey]
// and [Export]; [Verify] reads what Export wrote, anywhere.
//
// [OpenLines] and [NewOTLP] write receipts to where log collectors read them. The store
// remains authoritative: a receipt that cannot be written there is reported and delays
// nothing.
package receipt

import (
	"context"
	"encoding/json"
	"time"

	"github.com/toolroom/toolroom"
)

// Draft is a receipt on its way to the store.
type Draft struct {
	toolroom.Receipt

	// RawArguments are the original arguments if ArgumentsHash is not yet computed: the
	// recorder computes it, off the path of the call.
	RawArguments json.RawMessage `json:"-"`

	// Journal and Entry are the position of the receipt in the journal of the
	// process that made it, if any.
	Journal string `json:"-"`
	Entry   int64  `json:"-"`

	// Refused says that the call was refused because receipts cannot be stored: if
	// many receipts are waiting, the recorder drops this one.
	Refused bool `json:"-"`

	// body and detail are the receipt as it is stored, once it is encoded, but for its
	// number.
	body, detail []byte
}

// MaxPreview is the maximum length of a preview, in bytes.
const MaxPreview = 512

// MaxValue is the maximum length of a recorded value, in bytes.
const MaxValue = 8 << 10

// Limits of the logs of one receipt: lines, and bytes of all lines together and of what was
// printed to one stream.
const (
	MaxLogLines   = 200
	MaxLogBytes   = 16 << 10
	MaxPrintBytes = 4 << 10
)

// Limits of a query, in receipts.
const (
	DefaultLimit = 50
	MaxLimit     = 1000
)

// RowLimit returns the maximum number of receipts that a store returns for q.
func RowLimit(q toolroom.ReceiptQuery) int {
	if q.Limit <= 0 {
		return DefaultLimit
	}
	return min(q.Limit, MaxLimit)
}

// Store stores receipts. Its methods are safe for concurrent use, also by several
// processes on one store.
type Store interface {
	// AppendReceipts appends a group in one durable transaction, in order, and sets
	// Seq and Hash. After an error none of the group is stored. AppendReceipts skips
	// receipts whose Journal and Entry are already stored. A call id that is already
	// stored is no error: a record is never refused because a caller chose its call
	// ids badly.
	AppendReceipts(ctx context.Context, group []*Draft) error
	// Receipt returns the newest receipt with a call id, or an error with code
	// not_found.
	Receipt(ctx context.Context, id string) (*toolroom.Receipt, error)
	// Receipts returns the receipts that q selects. It is no error if there are none.
	Receipts(ctx context.Context, q toolroom.ReceiptQuery) ([]*toolroom.Receipt, error)
	// IntendReceipt durably stores that a call is about to run, with its receipt so
	// far. The receipt that is later appended for the call replaces it.
	IntendReceipt(ctx context.Context, r *toolroom.Receipt, owner string) error
	// SettleIntents appends the stored intents of calls whose owner is no longer
	// alive and whose receipts were never appended. settle sets how they ended. A
	// call with an unfinished job has not ended: the process that takes the job over records it.
	// SettleIntents returns their number.
	SettleIntents(ctx context.Context, alive func(owner string) bool, settle func(*toolroom.Receipt)) (n int, err error)
	// ReceiptSamples calls see with each receipt that q selects, oldest first, until see
	// returns false. A limit of zero means no limit.
	ReceiptSamples(ctx context.Context, q toolroom.ReceiptQuery, see func(Sample) bool) error
	// ReceiptSpace returns how many bytes are free where receipts are stored, as far
	// as that is known.
	ReceiptSpace(ctx context.Context) (int64, error)

	// VerifyReceipts checks the chain with [Walk] and returns the number of receipts
	// that fit. The error names the id and seq of the first receipt that does not.
	// If old receipts were pruned, the chain begins at a checkpoint, which trust
	// must accept; a nil trust accepts none.
	VerifyReceipts(ctx context.Context, trust func(Checkpoint) error) (n int64, err error)

	// ReceiptRecords returns at most limit stored records after a number in the
	// chain, oldest first.
	ReceiptRecords(ctx context.Context, after int64, limit int) ([]Record, error)
	// ReceiptRange returns the number of the first receipt whose call started at or
	// after since and of the last whose call started before until; a zero time does
	// not restrict. If there are none in between, to is less than from.
	ReceiptRange(ctx context.Context, since, until time.Time) (from, to int64, err error)
	// ReceiptEnds returns the beginning and the end of the stored chain. The
	// checkpoint is zero if nothing was pruned.
	ReceiptEnds(ctx context.Context) (Checkpoint, Chain, error)

	// RedactReceipts permanently removes the details of all receipts of a call and
	// appends notice, with Redacts set, in the same transaction. It returns
	// not_found if the call has no receipts, and a conflict if their details were
	// already removed.
	RedactReceipts(ctx context.Context, call string, notice *toolroom.Receipt) error
	// PruneReceipts removes the oldest receipts up to the first whose call started
	// at or after before, and stores the checkpoint that sign signs. It returns the
	// number of removed receipts, and does nothing if there are none.
	PruneReceipts(ctx context.Context, before time.Time, sign func(*Checkpoint) error) (n int64, err error)
}
