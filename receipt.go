package toolroom

import (
	"encoding/json"
	"strconv"
	"strings"
	"time"
)

// Receipt is the record of one call. It holds no secret: the runner has redacted Arguments,
// and only a digest and a short preview of the result are kept.
type Receipt struct {
	ID       string     `json:"id"`
	Parent   string     `json:"parent,omitempty"`
	Tool     string     `json:"tool"`
	Source   SourceKind `json:"source,omitempty"`
	Surface  string     `json:"surface"`
	Identity Identity   `json:"identity,omitzero"`
	Session  string     `json:"session,omitempty"`

	// Release is the version of the tool that served the call, and Environment the
	// environment that the caller chose; both are empty for tools without versions.
	Release     *Release `json:"release,omitempty"`
	Environment string   `json:"environment,omitempty"`

	// Arguments is a redacted copy; ArgumentsHash is the SHA-256, in hex, of the canonical
	// form of the original arguments.
	Arguments     json.RawMessage `json:"arguments,omitempty"`
	ArgumentsHash string          `json:"arguments_hash,omitempty"`
	Key           string          `json:"idempotency_key,omitempty"`

	Status  Status  `json:"status"`
	Effects Effects `json:"effects,omitempty"`
	Error   *Error  `json:"error,omitempty"`
	// Warnings are those of the result.
	Warnings []Warning `json:"warnings,omitempty"`
	// Preview is the beginning of the result's text, redacted, at most 512 bytes.
	// ResultHash is the SHA-256, in hex, of the whole value.
	Preview    string `json:"preview,omitempty"`
	ResultHash string `json:"result_hash,omitempty"`
	// Value is the whole value, redacted, of a call that another call made, if it has at
	// most 8 KiB: a program that becomes a tool is tested with it.
	Value     json.RawMessage `json:"value,omitempty"`
	Artifacts []string        `json:"artifacts,omitempty"`

	// Logs are the lines that the tool logged, and LogsHidden how many more there were.
	Logs       []LogLine `json:"logs,omitempty"`
	LogsHidden int       `json:"logs_hidden,omitempty"`

	// Labels are the tags of the tool and the labels of the result. Reach are the taint
	// labels of the call when policy decided, for example "private from files:read".
	Labels []string `json:"labels,omitempty"`
	Reach  []string `json:"reach,omitempty"`

	// Expected are the predicted effects that policy saw.
	Expected []Effect `json:"expected_effects,omitempty"`

	// Connections are the connections that a program of code mode was refused.
	Connections []RefusedConnection `json:"refused_connections,omitempty"`

	// Rule is the policy rule that decided, Decision its verdict, Layers the steps of all
	// layers, and Isolation the weakest isolation that they permit. Approval is the approval
	// that was used.
	Rule      string       `json:"rule,omitempty"`
	Decision  Verdict      `json:"decision,omitempty"`
	Layers    []PolicyStep `json:"layers,omitempty"`
	Isolation Isolation    `json:"isolation,omitempty"`
	Approval  string       `json:"approval,omitempty"`

	// PendingApproval is the approval without an answer for which the call ended with
	// approval_required.
	PendingApproval string `json:"pending_approval,omitempty"`

	Started time.Time `json:"started"`
	Usage   Usage     `json:"usage"`

	// Redacts are the numbers of the receipts whose details were removed, if this receipt
	// records a redaction. Redacted says that the details of this one were removed.
	Redacts  []int64 `json:"redacts,omitempty"`
	Redacted bool    `json:"redacted,omitempty"`

	// Seq and Hash are set by the store: the number in the chain, and the SHA-256, in hex,
	// over the previous receipt's hash and this receipt.
	Seq  int64  `json:"seq,omitempty"`
	Hash string `json:"hash,omitempty"`
}

// LogLine is a line that a tool logged, redacted. Level is debug, info, warning or error;
// for all that a program printed, it is stdout or stderr.
type LogLine struct {
	Time    time.Time       `json:"time"`
	Level   string          `json:"level"`
	Message string          `json:"message"`
	Data    json.RawMessage `json:"data,omitempty"`
}

// ReceiptQuery selects receipts. Zero fields do not restrict.
type ReceiptQuery struct {
	Tool string
	// Version is the number of the version that served the call, and Environment the
	// environment that it was called in.
	Version     int
	Environment string
	// Subject is the caller's [Identity.Key]: "local" for the local operator.
	Subject string
	// ReachedBy selects the calls of callers that an identity reaches: those with its subject
	// that are at most as wide in everything else. Nil selects all.
	ReachedBy *Identity
	Surface   string
	Status    Status
	// Code is the code of the error that the call failed with.
	Code   Code
	Label  string
	Parent string
	// Since selects calls that started at or after it, Until calls that started before it.
	Since, Until time.Time
	// AfterSeq selects receipts after a number in the chain, oldest first, so that a
	// follower can continue. ReceiptsFromStart begins at the first receipt. If AfterSeq is
	// zero, the newest come first.
	AfterSeq int64
	// BeforeSeq pages backwards through the newest.
	BeforeSeq int64
	// Limit is the maximum number of receipts; zero means 50, and the maximum is 1,000.
	Limit int
}

// Select selects the calls of a tool by its canonical id, which may end with @ and the
// number of a version.
func (q *ReceiptQuery) Select(tool string) error {
	id, number, versioned := strings.Cut(tool, "@")
	q.Tool = id
	if !versioned {
		return nil
	}
	var err error
	if q.Version, err = strconv.Atoi(number); err != nil || q.Version < 1 {
		return Errorf(CodeInvalidID, "%q is not a version: versions are numbers from 1", number)
	}
	return nil
}

// ReceiptsFromStart, as [ReceiptQuery.AfterSeq], selects the chain from its first receipt.
const ReceiptsFromStart int64 = -1
