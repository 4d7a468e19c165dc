package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/receipt"
	"github.com/toolroom/toolroom/internal/taint"
)

// AuditKey returns the key that signs exports and checkpoints. The first use creates it.
func (a *App) AuditKey() (receipt.SigningKey, error) {
	return receipt.OpenSigningKey(filepath.Join(a.home, "audit.key"))
}

// VerifyReceipts checks the hash chain of all receipts and returns their number.
func (a *App) VerifyReceipts(ctx context.Context) (int64, error) {
	if err := a.recorder.Flush(ctx); err != nil {
		return 0, err
	}
	n, err := a.store.VerifyReceipts(ctx, func(c receipt.Checkpoint) error {
		if _, err := os.Stat(filepath.Join(a.home, "audit.key")); errors.Is(err, fs.ErrNotExist) {
			return receipt.Broken("", c.Seq+1, "the receipts before it are missing, and so is the key that signed their removal (audit.key)")
		}
		key, err := a.AuditKey()
		if err != nil {
			return err
		}
		return receipt.VerifyCheckpoint(key.Public(), c)
	})
	if err == nil {
		err = a.receiptHead.Check(ctx, a.store)
	}
	return n, err
}

// ExportReceipts writes receipts and a signed manifest; see [receipt.Export].
func (a *App) ExportReceipts(ctx context.Context, key receipt.SigningKey, sel receipt.Selection, out io.Writer) (*receipt.Manifest, error) {
	if err := a.recorder.Flush(ctx); err != nil {
		return nil, err
	}
	return receipt.Export(ctx, a.store, key, sel, out)
}

// CheckReceiptsAgainst checks that the store still contains the receipts of an export. This
// detects what a hash chain alone cannot: a chain that was completely rewritten, or whose
// end was cut off.
func (a *App) CheckReceiptsAgainst(ctx context.Context, exported receipt.Manifest) error {
	return receipt.CheckAgainst(ctx, a.store, exported)
}

// RedactReceipts permanently removes arguments, result and error text from the receipts of
// a call. A receipt records the removal, who did it and why.
func (a *App) RedactReceipts(ctx context.Context, call, reason string, by toolroom.Identity, surface string) (*toolroom.Receipt, error) {
	if err := a.recorder.Flush(ctx); err != nil {
		return nil, err
	}
	return receipt.Redact(ctx, a.store, call, reason, by, surface, time.Now())
}

// PruneReceipts removes the receipts of calls that started before a time.
func (a *App) PruneReceipts(ctx context.Context, before time.Time) (int64, error) {
	if err := a.recorder.Flush(ctx); err != nil {
		return 0, err
	}
	// Usually there is nothing to do, and then no key needs to be created.
	from, to, err := a.store.ReceiptRange(ctx, time.Time{}, before)
	if err != nil || from > to {
		return 0, err
	}
	key, err := a.AuditKey()
	if err != nil {
		return 0, err
	}
	return receipt.Prune(ctx, a.store, key, before)
}

// forgetTool is the tool name in receipts of operators' changes to a session's labels.
const forgetTool = "toolroom:policy.forget"

// ForgetTaint clears the taint labels of a caller's session, because an operator decides
// that what it has read no longer matters. Before that, a receipt records who cleared which
// labels and why. The empty session is that of clients that name none.
func (a *App) ForgetTaint(ctx context.Context, owner, session, by, reason string) ([]taint.Label, error) {
	now := time.Now().UTC()
	arguments, err := json.Marshal(map[string]string{"caller": owner, "session": session, "by": by, "reason": reason})
	if err != nil {
		return nil, err
	}
	labels, err := a.store.Taints(ctx, owner, session, time.Time{})
	if err != nil {
		return nil, err
	}
	if len(labels) == 0 {
		return nil, toolroom.Errorf(toolroom.CodeNotFound, "the session %q of %s has no taint labels", session, owner).
			WithCLIHint("receipts name the sessions: toolroom calls --by %s", owner)
	}
	record := &receipt.Draft{Receipt: toolroom.Receipt{
		ID: fmt.Sprintf("forget_%d", now.UnixNano()), Tool: forgetTool, Surface: "cli", Session: session, Arguments: arguments,
		Status: toolroom.StatusOK, Effects: toolroom.EffectsDone, Decision: toolroom.VerdictAllow, Rule: "an operator cleared the taint labels", Started: now,
	}}
	for _, m := range taint.Sorted(labels) {
		record.Reach = append(record.Reach, m.String())
	}
	if err := a.recorder.Append(ctx, record); err != nil {
		return nil, err
	}
	if err := a.recorder.Flush(ctx); err != nil {
		return nil, err
	}
	return a.store.RemoveTaints(ctx, owner, session)
}
