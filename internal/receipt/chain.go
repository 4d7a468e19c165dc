package receipt

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"github.com/toolroom/toolroom"
)

// Chain is an end of the hash chain: the place and hash of the last receipt.
// The zero Chain is the beginning. A store keeps the end of its chain beside
// the receipts, so that receipts cut off at the end are missed as well.
//
// The chain shows changes by those who can reach single receipts. Whoever can
// rewrite the whole store can compute a new chain; against them an operator
// notes Hash elsewhere.
type Chain struct {
	Seq  int64
	Hash string
}

// Next links r to the chain. It returns the new end, whose Seq and Hash are
// those of r, and the encoded receipt that a store keeps. It leaves r as it is.
func (c Chain) Next(r *Receipt) (Chain, []byte, error) {
	linked := *r
	linked.Seq, linked.Hash = c.Seq+1, ""
	body, err := encode(linked)
	if err != nil {
		return c, nil, fmt.Errorf("encode the receipt of call %s: %w", r.ID, err)
	}
	return Chain{linked.Seq, c.link(body)}, body, nil
}

// Check tells whether a stored receipt is the next link, and returns it and the
// new end. The error names the receipt's id and seq.
func (c Chain) Check(seq int64, hash string, body []byte) (Chain, *Receipt, error) {
	r, err := Decode(hash, body)
	switch {
	case err != nil:
		return c, nil, Broken("", seq, "it cannot be read")
	case seq != c.Seq+1:
		return c, nil, Broken(r.ID, seq, fmt.Sprintf("receipt %d is missing before it", c.Seq+1))
	case hash != c.link(body) || r.Seq != seq:
		return c, nil, Broken(r.ID, seq, "it is not what was recorded")
	}
	return Chain{seq, hash}, r, nil
}

// CheckEnd tells whether c, reached by checking every receipt, is the end that
// the store noted.
func (c Chain) CheckEnd(noted Chain) error {
	switch {
	case c == noted:
		return nil
	case c.Seq < noted.Seq:
		return Broken("", c.Seq+1, fmt.Sprintf("it and all up to %d are missing", noted.Seq))
	default:
		return Broken("", noted.Seq+1, "it was added by something else than Toolroom")
	}
}

// Decode reads what Next encoded.
func Decode(hash string, body []byte) (*Receipt, error) {
	r := &Receipt{}
	if err := json.Unmarshal(body, r); err != nil {
		return nil, fmt.Errorf("decode a stored receipt: %w", err)
	}
	r.Hash = hash
	return r, nil
}

func (c Chain) link(body []byte) string {
	h := sha256.New()
	h.Write([]byte(c.Hash))
	h.Write([]byte{'\n'})
	h.Write(body)
	return hex.EncodeToString(h.Sum(nil))
}

// encode never fails on what a tool or caller has put into a receipt: a record
// without a detail is better than none, and one that can never be stored would
// hold up all that follow.
func encode(r Receipt) ([]byte, error) {
	body, err := json.Marshal(&r)
	if err == nil {
		return body, nil
	}
	if !json.Valid(r.Arguments) {
		r.Arguments = json.RawMessage(`"(left out: not valid JSON)"`)
	}
	if r.Error != nil {
		plain := *r.Error
		plain.Details = nil
		r.Error = &plain
	}
	return json.Marshal(&r)
}

// Broken is the error for the first receipt that does not fit its chain; id may be
// empty when it is not known.
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
