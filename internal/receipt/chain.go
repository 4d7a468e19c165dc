package receipt

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/jsonx"
)

// Chain is the end of a hash chain: the number and hash of its last receipt. The
// zero Chain is the beginning. A store keeps the end of its chain beside the
// receipts, so that the removal of receipts at the end is detected as well.
//
// The chain reveals changes by anyone who can change single receipts. Anyone who
// can rewrite the whole store can compute a new chain; to detect that, an
// operator keeps Hash in another place.
type Chain struct {
	Seq  int64  `json:"seq"`
	Hash string `json:"hash"`
}

// Next links r to the chain. It returns the new end, whose Seq and Hash are those
// of r, and the record to store. It does not change r.
func (c Chain) Next(r *toolroom.Receipt) (Chain, Record, error) {
	return c.NextDraft(&Draft{Receipt: *r})
}

// NextDraft is [Chain.Next] for a draft, which may be encoded already.
func (c Chain) NextDraft(d *Draft) (Chain, Record, error) {
	if err := d.encode(); err != nil {
		return c, Record{}, err
	}
	body := d.bodyWithSeq(c.Seq + 1)
	end := Chain{c.Seq + 1, c.link(body)}
	return end, Record{Seq: end.Seq, Hash: end.Hash, Body: body, Detail: d.detail}, nil
}

// Check checks that a stored record is the next link, and returns its receipt and
// the new end. The error names the receipt's id and seq. A record without its
// details passes; [Walk] checks that their redaction was recorded.
func (c Chain) Check(k Record) (Chain, *toolroom.Receipt, error) {
	r, err := k.Receipt()
	switch {
	case err != nil:
		return c, nil, Broken("", k.Seq, "it cannot be read")
	case k.Seq != c.Seq+1:
		return c, nil, Broken(r.ID, k.Seq, fmt.Sprintf("receipt %d is missing before it", c.Seq+1))
	case k.Hash != c.link(k.Body) || r.Seq != k.Seq:
		return c, nil, Broken(r.ID, k.Seq, "it is not what was recorded")
	case !r.Redacted && !k.detailMatches():
		return c, nil, Broken(r.ID, k.Seq, "its details are not what was recorded")
	}
	return Chain{k.Seq, k.Hash}, r, nil
}

// CheckEnd checks that c, reached by checking every receipt, is the end that the
// store recorded.
func (c Chain) CheckEnd(noted Chain) error {
	switch {
	case c == noted:
		return nil
	case c.Seq < noted.Seq:
		return Broken("", c.Seq+1, fmt.Sprintf("it and all up to %d are missing", noted.Seq))
	case c.Seq == noted.Seq:
		return Broken("", c.Seq, "it is not the one that the store recorded as its last")
	default:
		return Broken("", noted.Seq+1, "it was not added by Toolroom")
	}
}

func (c Chain) link(body []byte) string {
	h := sha256.New()
	h.Write([]byte(c.Hash))
	h.Write([]byte{'\n'})
	h.Write(body)
	return hex.EncodeToString(h.Sum(nil))
}

// Broken returns the error for the first receipt that does not fit its chain. id
// is empty if it is not known.
func Broken(id string, seq int64, reason string) *toolroom.Error {
	name := fmt.Sprintf("receipt %d", seq)
	if id != "" {
		name += fmt.Sprintf(" (call %s)", id)
	}
	return &toolroom.Error{
		Code:    toolroom.CodeInternal,
		Phase:   toolroom.PhaseReceipt,
		Message: fmt.Sprintf("the chain of receipts is broken: %s does not fit: %s", name, reason),
		Hint:    "the receipts before it are as recorded; compare this one and those after it with a backup",
		Details: map[string]any{"id": id, "seq": seq},
	}
}

// Hash returns the SHA-256 of data, in hex.
func Hash(data []byte) string {
	sum := sha256.Sum256(data)
	var text [2 * sha256.Size]byte
	hex.Encode(text[:], sum[:])
	return string(text[:])
}

// hashArguments computes the hash of the arguments, which calls leave to the
// recorder.
func (r *Draft) hashArguments() {
	if r.RawArguments == nil {
		return
	}
	if canonical, err := jsonx.Canonical(r.RawArguments); err == nil {
		r.ArgumentsHash = Hash(canonical)
	}
	r.RawArguments = nil
}
