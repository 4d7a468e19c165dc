package receipt

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
)

// Head records the end of the chain in a file outside the store, so that a lost
// or restored older store is detected. Several processes may use the same file:
// it may lag behind the chain, but is never ahead of it.
type Head struct {
	path string

	mu     sync.Mutex
	frozen bool
}

// NewHead returns the Head in the file at path.
func NewHead(path string) *Head { return &Head{path: path} }

const headForm = "%020d %64s\n"

// read returns the zero Chain if none was recorded.
func (h *Head) read() (c Chain, err error) {
	text, err := os.ReadFile(h.path)
	if errors.Is(err, fs.ErrNotExist) || err == nil && len(text) == 0 {
		return Chain{}, nil
	}
	if err == nil {
		if _, err = fmt.Sscanf(string(text), "%d %s\n", &c.Seq, &c.Hash); err != nil || len(c.Hash) != 64 {
			err = Broken("", 1, fmt.Sprintf("the head of the chain in %s cannot be read", h.path))
		}
	}
	return c, err
}

// advance records the end of the chain after a group whose first receipt has the number
// first. It does nothing if the group does not follow the head: then either another process
// was faster, or the head proves that receipts are missing.
func (h *Head) advance(first int64, end Chain) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.frozen {
		return nil
	}
	noted, err := h.read()
	if err != nil || noted.Seq >= first {
		return err
	}
	f, err := os.OpenFile(h.path, os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(f, headForm, end.Seq, end.Hash)
	return errors.Join(err, f.Close())
}

// Check returns an error if the stored chain does not have the receipt that the
// head names. After an error h no longer changes the head, which is the evidence.
func (h *Head) Check(ctx context.Context, s Store) error {
	noted, err := h.read() // before the store, which other processes extend
	if err == nil && noted.Seq > 0 {
		err = noted.checkStored(ctx, s)
	}
	if err != nil {
		h.mu.Lock()
		h.frozen = true
		h.mu.Unlock()
	}
	return err
}

// checkStored returns an error if the stored chain does not have the receipt c.
func (c Chain) checkStored(ctx context.Context, s Store) error {
	first, end, err := s.ReceiptEnds(ctx)
	switch {
	case err != nil:
		return err
	case end.Seq < c.Seq:
		e := Broken("", end.Seq+1, fmt.Sprintf("it and all up to %d are missing: the store was lost or replaced by an older one", c.Seq))
		return e.WithHint("restore toolroom.db with its -wal file; if you restored a backup on purpose, remove receipts.head")
	case first.Seq > c.Seq:
		return nil // it was removed on purpose, and the checkpoint is signed
	}
	stored, err := linkAt(ctx, s, first, c.Seq)
	if err == nil && stored != c {
		err = Broken("", c.Seq, "it is not the one that was noted in receipts.head: the store was written anew")
	}
	return err
}
