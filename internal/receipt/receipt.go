// Package receipt stores the durable record of every call. A [Recorder] accepts
// receipts from the runner and commits them in groups off the hot path. A [Store]
// holds them, chained by hash.
package receipt

import (
	"context"
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/policy"
)

// Receipt is the record of one call. It holds no secret: the runner has redacted
// Arguments, and only a digest and a short preview of the result are kept.
type Receipt struct {
	ID       string              `json:"id"`
	Parent   string              `json:"parent,omitempty"`
	Tool     string              `json:"tool"`
	Source   toolroom.SourceKind `json:"source,omitempty"`
	Surface  string              `json:"surface"`
	Identity toolroom.Identity   `json:"identity,omitzero"`
	Session  string              `json:"session,omitempty"`

	// Release is the version of the tool that served the call, and Environment the
	// environment that the caller chose; both are empty for tools without versions.
	Release     *toolroom.Release `json:"release,omitempty"`
	Environment string            `json:"environment,omitempty"`

	// Arguments is a redacted copy; ArgumentsHash is the SHA-256, in hex, of the
	// canonical form of the original arguments.
	Arguments     json.RawMessage `json:"arguments,omitempty"`
	ArgumentsHash string          `json:"arguments_hash,omitempty"`
	Key           string          `json:"idempotency_key,omitempty"`

	Status  toolroom.Status  `json:"status"`
	Effects toolroom.Effects `json:"effects,omitempty"`
	Error   *toolroom.Error  `json:"error,omitempty"`
	// Warnings are those of the result.
	Warnings []toolroom.Warning `json:"warnings,omitempty"`
	// Preview is the beginning of the result's text, redacted, at most
	// MaxPreview bytes. ResultHash is the SHA-256, in hex, of the whole value.
	Preview    string `json:"preview,omitempty"`
	ResultHash string `json:"result_hash,omitempty"`
	// Value is the whole value, redacted, of a call that another call made, if it has at
	// most MaxValue bytes: a program that becomes a tool is tested with it.
	Value     json.RawMessage `json:"value,omitempty"`
	Artifacts []string        `json:"artifacts,omitempty"`

	// Logs are the lines that the tool logged, and LogsHidden how many more there were.
	Logs       []LogLine `json:"logs,omitempty"`
	LogsHidden int       `json:"logs_hidden,omitempty"`

	// Labels are the tags of the tool and the labels of the result. Reach are the
	// taint labels of the call when policy decided, for example
	// "private from files:read".
	Labels []string `json:"labels,omitempty"`
	Reach  []string `json:"reach,omitempty"`

	// Expected are the predicted effects that policy saw.
	Expected []toolroom.Effect `json:"expected_effects,omitempty"`

	// Connections are the connections that a program of code mode was refused.
	Connections []toolroom.RefusedConnection `json:"refused_connections,omitempty"`

	// Rule is the policy rule that decided, Decision its outcome, Layers the steps
	// of all layers, and Isolation the weakest isolation that they permit. Approval
	// is the approval that was used.
	Rule      string           `json:"rule,omitempty"`
	Decision  policy.Effect    `json:"decision,omitempty"`
	Layers    []policy.Step    `json:"layers,omitempty"`
	Isolation policy.Isolation `json:"isolation,omitempty"`
	Approval  string           `json:"approval,omitempty"`

	Started time.Time      `json:"started"`
	Usage   toolroom.Usage `json:"usage"`

	// Redacts are the numbers of the receipts whose details were removed, if this
	// receipt records a redaction. Redacted says that the details of this one were
	// removed.
	Redacts  []int64 `json:"redacts,omitempty"`
	Redacted bool    `json:"redacted,omitempty"`

	// Called are the original arguments if ArgumentsHash is not yet computed: the
	// recorder computes it, off the path of the call.
	Called json.RawMessage `json:"-"`

	// Journal and Entry are the position of the receipt in the journal of the
	// process that made it, if any.
	Journal string `json:"-"`
	Entry   int64  `json:"-"`

	// Refused says that the call was refused because receipts cannot be stored: if
	// many receipts are waiting, the recorder drops this one.
	Refused bool `json:"-"`

	// Seq and Hash are set by the store: the number in the chain, and the SHA-256,
	// in hex, over the previous receipt's hash and this receipt.
	Seq  int64  `json:"seq,omitempty"`
	Hash string `json:"hash,omitempty"`
}

// MaxPreview is the maximum length of a preview, in bytes.
const MaxPreview = 512

// MaxValue is the maximum length of a recorded value, in bytes.
const MaxValue = 8 << 10

// LogLine is a line that a tool logged, redacted. Level is debug, info, warning or error;
// for all that a program printed, it is stdout or stderr.
type LogLine struct {
	Time    time.Time       `json:"time"`
	Level   string          `json:"level"`
	Message string          `json:"message"`
	Data    json.RawMessage `json:"data,omitempty"`
}

// Limits of the logs of one receipt: lines, and bytes of all lines together and of what was
// printed to one stream.
const (
	MaxLogLines   = 200
	MaxLogBytes   = 16 << 10
	MaxPrintBytes = 4 << 10
)

// Query selects receipts. Zero fields do not restrict.
type Query struct {
	Tool string
	// Version is the number of the version that served the call, and Environment the
	// environment that it was called in.
	Version     int
	Environment string
	// Subject is the caller's [toolroom.Identity.Key]: "local" for the local
	// operator.
	Subject string
	// ReachedBy selects the calls of callers that an identity reaches: see
	// [identity.Reaches]. Nil selects all.
	ReachedBy *toolroom.Identity
	Surface   string
	Status    toolroom.Status
	// Code is the code of the error that the call failed with.
	Code   toolroom.Code
	Label  string
	Parent string
	// Since selects calls that started at or after it, Until calls that started
	// before it.
	Since, Until time.Time
	// AfterSeq selects receipts after a number in the chain, oldest first, so that
	// a follower can continue. FromStart begins at the first receipt. If AfterSeq
	// is zero, the newest come first.
	AfterSeq int64
	// BeforeSeq pages backwards through the newest.
	BeforeSeq int64
	// Limit is the maximum number of receipts; zero means DefaultLimit, and more
	// than MaxLimit means MaxLimit.
	Limit int
}

// Select selects the calls of a tool by its canonical id, which may end with @ and the number
// of a version.
func (q *Query) Select(tool string) error {
	id, number, versioned := strings.Cut(tool, "@")
	q.Tool = id
	if !versioned {
		return nil
	}
	var err error
	if q.Version, err = strconv.Atoi(number); err != nil || q.Version < 1 {
		return toolroom.Errorf(toolroom.CodeInvalidID, "%q is not a version: versions are numbers from 1", number)
	}
	return nil
}

// FromStart, as Query.AfterSeq, selects the chain from its first receipt.
const FromStart int64 = -1

// Limits of a query, in receipts.
const (
	DefaultLimit = 50
	MaxLimit     = 1000
)

// RowLimit returns the maximum number of receipts that a store returns for q.
func (q Query) RowLimit() int {
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
	AppendReceipts(ctx context.Context, group []*Receipt) error
	// Receipt returns the newest receipt with a call id, or an error with code
	// not_found.
	Receipt(ctx context.Context, id string) (*Receipt, error)
	// Receipts returns the receipts that q selects. It is no error if there are none.
	Receipts(ctx context.Context, q Query) ([]*Receipt, error)
	// IntendReceipt durably stores that a call is about to run, with its receipt so
	// far. The receipt that is later appended for the call replaces it.
	IntendReceipt(ctx context.Context, r *Receipt, owner string) error
	// SettleIntents appends the stored intents of calls whose owner is no longer
	// alive and whose receipts were never appended. settle sets how they ended. A
	// call with an unfinished job has not ended: whoever takes the job over records it.
	// SettleIntents returns their number.
	SettleIntents(ctx context.Context, alive func(owner string) bool, settle func(*Receipt)) (n int, err error)
	// ReceiptSamples calls see with each receipt that q selects, oldest first, until see
	// returns false. A limit of zero means no limit.
	ReceiptSamples(ctx context.Context, q Query, see func(Sample) bool) error
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
	RedactReceipts(ctx context.Context, call string, notice *Receipt) error
	// PruneReceipts removes the oldest receipts up to the first whose call started
	// at or after before, and stores the checkpoint that sign signs. It returns the
	// number of removed receipts, and does nothing if there are none.
	PruneReceipts(ctx context.Context, before time.Time, sign func(*Checkpoint) error) (n int64, err error)
}
