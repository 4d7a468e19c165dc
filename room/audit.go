package room

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/receipt"
	"github.com/toolroom/toolroom/internal/receipt/audit"
)

// AuditKey is the key that signs exports and checkpoints. It is made at its
// first use.
func (r *Room) AuditKey() (audit.Key, error) {
	return audit.OpenKey(filepath.Join(r.home, "audit.key"))
}

// VerifyReceipts checks the chain of all receipts and says how many there are.
func (r *Room) VerifyReceipts(ctx context.Context) (int64, error) {
	if err := r.recorder.Flush(ctx); err != nil {
		return 0, err
	}
	return r.store.VerifyReceipts(ctx, func(c receipt.Checkpoint) error {
		if _, err := os.Stat(filepath.Join(r.home, "audit.key")); errors.Is(err, fs.ErrNotExist) {
			return receipt.Broken("", c.Seq+1, "receipts before it are gone, and so is the key that signed their removal (audit.key)")
		}
		key, err := r.AuditKey()
		if err != nil {
			return err
		}
		return audit.Trust(key.Public(), c)
	})
}

// ExportReceipts writes receipts and a signed manifest; see [audit.Export].
func (r *Room) ExportReceipts(ctx context.Context, key audit.Key, sel audit.Selection, out io.Writer) (*audit.Manifest, error) {
	if err := r.recorder.Flush(ctx); err != nil {
		return nil, err
	}
	return audit.Export(ctx, r.store, key, sel, out)
}

// CheckReceiptsAgainst reports whether the receipts of an export are still what
// the store has: it finds what a chain alone cannot show, that all of it was
// written anew or its end taken off.
func (r *Room) CheckReceiptsAgainst(ctx context.Context, exported audit.Manifest) error {
	return audit.CheckAgainst(ctx, r.store, exported)
}

// RedactReceipts removes arguments, result and error text from the receipts of
// a call, for good. That it was done, by whom and why is recorded.
func (r *Room) RedactReceipts(ctx context.Context, call, reason string, by toolroom.Identity, surface string) (*receipt.Receipt, error) {
	if err := r.recorder.Flush(ctx); err != nil {
		return nil, err
	}
	return audit.Redact(ctx, r.store, call, reason, by, surface, time.Now())
}

// PruneReceipts removes the receipts of calls that started before a time.
func (r *Room) PruneReceipts(ctx context.Context, before time.Time) (int64, error) {
	if err := r.recorder.Flush(ctx); err != nil {
		return 0, err
	}
	// Most of the time there is nothing to do, and no key to be made.
	from, to, err := r.store.ReceiptRange(ctx, time.Time{}, before)
	if err != nil || from > to {
		return 0, err
	}
	key, err := r.AuditKey()
	if err != nil {
		return 0, err
	}
	return audit.Prune(ctx, r.store, key, before)
}
