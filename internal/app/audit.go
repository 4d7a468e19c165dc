package app

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

// AuditKey returns the key that signs exports and checkpoints. The first use creates it.
func (r *App) AuditKey() (audit.Key, error) {
	return audit.OpenKey(filepath.Join(r.home, "audit.key"))
}

// VerifyReceipts checks the hash chain of all receipts and returns their number.
func (r *App) VerifyReceipts(ctx context.Context) (int64, error) {
	if err := r.recorder.Flush(ctx); err != nil {
		return 0, err
	}
	n, err := r.store.VerifyReceipts(ctx, func(c receipt.Checkpoint) error {
		if _, err := os.Stat(filepath.Join(r.home, "audit.key")); errors.Is(err, fs.ErrNotExist) {
			return receipt.Broken("", c.Seq+1, "the receipts before it are missing, and so is the key that signed their removal (audit.key)")
		}
		key, err := r.AuditKey()
		if err != nil {
			return err
		}
		return audit.Trust(key.Public(), c)
	})
	if err == nil {
		err = r.head.Check(ctx, r.store)
	}
	return n, err
}

// ExportReceipts writes receipts and a signed manifest; see [audit.Export].
func (r *App) ExportReceipts(ctx context.Context, key audit.Key, sel audit.Selection, out io.Writer) (*audit.Manifest, error) {
	if err := r.recorder.Flush(ctx); err != nil {
		return nil, err
	}
	return audit.Export(ctx, r.store, key, sel, out)
}

// CheckReceiptsAgainst checks that the store still contains the receipts of an export. This
// detects what a hash chain alone cannot: a chain that was completely rewritten, or whose
// end was cut off.
func (r *App) CheckReceiptsAgainst(ctx context.Context, exported audit.Manifest) error {
	return audit.CheckAgainst(ctx, r.store, exported)
}

// RedactReceipts permanently removes arguments, result and error text from the receipts of
// a call. A receipt records the removal, who did it and why.
func (r *App) RedactReceipts(ctx context.Context, call, reason string, by toolroom.Identity, surface string) (*toolroom.Receipt, error) {
	if err := r.recorder.Flush(ctx); err != nil {
		return nil, err
	}
	return audit.Redact(ctx, r.store, call, reason, by, surface, time.Now())
}

// PruneReceipts removes the receipts of calls that started before a time.
func (r *App) PruneReceipts(ctx context.Context, before time.Time) (int64, error) {
	if err := r.recorder.Flush(ctx); err != nil {
		return 0, err
	}
	// Usually there is nothing to do, and then no key needs to be created.
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
