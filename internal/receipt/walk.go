package receipt

import (
	"maps"
	"slices"

	"github.com/toolroom/toolroom"
)

// Walk checks a chain record by record. The zero Walk begins at the first
// receipt.
type Walk struct {
	// At is the end of the part that has been checked.
	At Chain
	// unexplained holds the ids of receipts without details whose redaction has
	// not been found yet, by number.
	unexplained map[int64]string
}

// Next checks the next record.
func (w *Walk) Next(k Record) (*toolroom.Receipt, error) {
	at, r, err := w.At.Check(k)
	if err != nil {
		return nil, err
	}
	w.At = at
	if r.Redacted {
		if w.unexplained == nil {
			w.unexplained = map[int64]string{}
		}
		w.unexplained[r.Seq] = r.ID
	}
	for _, seq := range r.Redacts {
		delete(w.unexplained, seq)
	}
	return r, nil
}

// Unexplained returns the numbers of receipts whose details were removed without
// a later receipt that records it.
func (w *Walk) Unexplained() []int64 { return slices.Sorted(maps.Keys(w.unexplained)) }

// End checks that the walk covered the whole chain up to the end that the store
// recorded, and that every redaction is recorded.
func (w *Walk) End(noted Chain) error {
	if err := w.At.CheckEnd(noted); err != nil {
		return err
	}
	for _, seq := range w.Unexplained() {
		return Broken(w.unexplained[seq], seq, "its details were removed, and no redaction is recorded")
	}
	return nil
}
