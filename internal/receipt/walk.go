package receipt

import (
	"maps"
	"slices"
)

// Walk checks a chain, record after record. The zero Walk begins at the first
// receipt.
type Walk struct {
	// At is how far the chain has been found whole.
	At Chain
	// unexplained are the receipts without details whose redaction has not been
	// met yet, by place.
	unexplained map[int64]string
}

// Next checks the record that follows.
func (w *Walk) Next(k Record) (*Receipt, error) {
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

// Unexplained are the places whose details are gone without a later receipt
// that says so.
func (w *Walk) Unexplained() []int64 { return slices.Sorted(maps.Keys(w.unexplained)) }

// End tells whether what was walked is the whole chain up to the end that the
// store noted, and every redaction is recorded.
func (w *Walk) End(noted Chain) error {
	if err := w.At.CheckEnd(noted); err != nil {
		return err
	}
	for _, seq := range w.Unexplained() {
		return Broken(w.unexplained[seq], seq, "its details were removed, and no redaction is recorded")
	}
	return nil
}
