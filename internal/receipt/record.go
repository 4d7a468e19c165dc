package receipt

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/toolroom/toolroom"
)

// Record is a receipt as it is stored and exported: Body is part of the chain,
// and has of Detail only the digest. So the details can be taken out without
// breaking the chain; then Detail is empty.
type Record struct {
	Seq    int64           `json:"seq"`
	Hash   string          `json:"hash"`
	Body   json.RawMessage `json:"body"`
	Detail json.RawMessage `json:"detail,omitempty"`
}

// Checkpoint is where a chain begins after older receipts were removed: the last
// receipt that is gone. The signature is by the room's audit key.
type Checkpoint struct {
	Seq       int64     `json:"seq"`
	Hash      string    `json:"hash"`
	Time      time.Time `json:"time"`
	Signature []byte    `json:"signature,omitempty"`
}

// Chain is the end that the next receipt after c is linked to.
func (c Checkpoint) Chain() Chain { return Chain{c.Seq, c.Hash} }

// body is the form of a receipt in the chain. One that older versions wrote has
// its details in itself and no digest.
type body struct {
	*toolroom.Receipt
	Error  *toolroom.Error `json:"error,omitempty"`
	Digest string          `json:"detail_digest,omitempty"`
}

// detail is the part of a receipt that a redaction removes: the data from callers and tools,
// and hashes from which short texts could be guessed.
type detail struct {
	// Salt prevents guessing the details from their digest.
	Salt          string          `json:"salt"`
	Arguments     json.RawMessage `json:"arguments,omitempty"`
	ArgumentsHash string          `json:"arguments_hash,omitempty"`
	// Expected repeats arguments.
	Expected    []toolroom.Effect            `json:"expected_effects,omitempty"`
	Connections []toolroom.RefusedConnection `json:"refused_connections,omitempty"`
	Warnings    []toolroom.Warning           `json:"warnings,omitempty"` // they quote the result
	Preview     string                       `json:"preview,omitempty"`
	Logs        []toolroom.LogLine           `json:"logs,omitempty"`
	Value       json.RawMessage              `json:"value,omitempty"`
	ResultHash  string                       `json:"result_hash,omitempty"`
	Message     string                       `json:"message,omitempty"`
	Hint        string                       `json:"hint,omitempty"`
	Details     map[string]any               `json:"details,omitempty"`
}

// noSeq is the placeholder for the number of a receipt in a body that is encoded before its
// number is known.
const noSeq = -1

// encode encodes the receipt once, for the journal and for the store.
func (r *Draft) encode() (err error) {
	if r.body != nil {
		return nil
	}
	plain := r.Receipt
	plain.Seq, plain.Hash = noSeq, ""
	if r.body, r.detail, err = encode(plain); err != nil {
		return fmt.Errorf("encode the receipt of call %s: %w", r.ID, err)
	}
	return nil
}

// bodyWithSeq returns the encoded body with its number in the chain. What follows the number is our own and
// has no other one.
func (r *Draft) bodyWithSeq(seq int64) []byte {
	const without = `,"seq":-1`
	at := bytes.LastIndex(r.body, []byte(without))
	body := append(make([]byte, 0, len(r.body)+20), r.body[:at]...)
	return append(strconv.AppendInt(append(body, `,"seq":`...), seq, 10), r.body[at+len(without):]...)
}

// encode never fails because of values that a tool or caller has put into a
// receipt: a record without a detail is better than none, and a record that can
// never be stored would block all that follow.
func encode(r toolroom.Receipt) (inChain, apart []byte, err error) {
	d := detail{
		Salt: rand.Text(), Arguments: r.Arguments, ArgumentsHash: r.ArgumentsHash, Expected: r.Expected, Connections: r.Connections, Warnings: r.Warnings, Preview: r.Preview, ResultHash: r.ResultHash,
		Logs: r.Logs, Value: r.Value,
	}
	b := body{Receipt: &r}
	if r.Error != nil {
		d.Message, d.Hint, d.Details = r.Error.Message, r.Error.Hint, r.Error.AllDetails()
		b.Error = &toolroom.Error{Code: r.Error.Code, Phase: r.Error.Phase, Tool: r.Error.Tool, Retryable: r.Error.Retryable}
	}
	r.Arguments, r.ArgumentsHash, r.Expected, r.Connections, r.Warnings, r.Preview, r.ResultHash, r.Error, r.Redacted, r.Logs, r.Value = nil, "", nil, nil, nil, "", "", nil, false, nil, nil
	if apart, err = json.Marshal(&d); err != nil {
		if len(d.Arguments) > 0 && !json.Valid(d.Arguments) {
			d.Arguments = json.RawMessage(`"(left out: not valid JSON)"`)
		}
		d.Details, d.Logs, d.Value = nil, nil, nil
		if apart, err = json.Marshal(&d); err != nil {
			return nil, nil, err
		}
	}
	b.Digest = Hash(apart)
	inChain, err = json.Marshal(&b)
	return inChain, apart, err
}

// Receipt decodes the record, with the Seq and Hash under which it is stored. It
// does not check the chain, see [Chain.Check].
func (k Record) Receipt() (*toolroom.Receipt, error) {
	r := &toolroom.Receipt{}
	b := body{Receipt: r}
	if err := json.Unmarshal(k.Body, &b); err != nil {
		return nil, fmt.Errorf("decode a stored receipt: %w", err)
	}
	r.Error, r.Hash = b.Error, k.Hash
	if b.Digest == "" {
		return r, nil
	}
	r.Redacted = len(k.Detail) == 0
	if r.Redacted {
		return r, nil
	}
	var d detail
	if err := json.Unmarshal(k.Detail, &d); err != nil {
		return nil, fmt.Errorf("decode the details of a stored receipt: %w", err)
	}
	r.Arguments, r.ArgumentsHash, r.Expected, r.Connections, r.Warnings, r.Preview, r.ResultHash = d.Arguments, d.ArgumentsHash, d.Expected, d.Connections, d.Warnings, d.Preview, d.ResultHash
	r.Logs, r.Value = d.Logs, d.Value
	if r.Error != nil {
		r.Error.Message, r.Error.Hint, r.Error.Details = d.Message, d.Hint, d.Details
	}
	return r, nil
}

// detailMatches reports whether the details have the digest that is in the chain.
func (k Record) detailMatches() bool {
	var b struct {
		Digest string `json:"detail_digest"`
	}
	if json.Unmarshal(k.Body, &b) != nil {
		return false
	}
	if b.Digest == "" {
		return len(k.Detail) == 0
	}
	return Hash(k.Detail) == b.Digest
}
