package app

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/config"
	"github.com/toolroom/toolroom/internal/proc"
	"github.com/toolroom/toolroom/internal/receipt"
	"github.com/toolroom/toolroom/internal/receipt/export"
	"github.com/toolroom/toolroom/internal/run"
	"github.com/toolroom/toolroom/internal/secret"
)

// openRecorder starts recording calls, also as log lines if the config asks for them.
func (r *App) openRecorder(ctx context.Context) error {
	o := receipt.RecorderOptions{Reserve: r.config.Receipts.Reserve}
	switch log := r.config.Receipts.Log; log {
	case "":
	case config.LogOTLP:
		r.collector = export.NewOTLP(export.OTLPOptions{
			Endpoint: r.config.Receipts.OTLP.Endpoint, Version: r.o.Version, Log: r.log,
			Headers: func(ctx context.Context) (map[string]string, error) {
				return r.resolver.ExpandAll(ctx, r.Config().Receipts.OTLP.Headers)
			},
		})
		o.Written = r.collector.Write
	case config.LogStdout:
		if r.o.Receipts != nil {
			r.lines = export.LinesTo(r.o.Receipts, r.log)
		}
	default:
		var err error
		if r.lines, err = export.OpenLines(r.folder(log), r.log); err != nil {
			return toolroom.Errorf(toolroom.CodeInternal, "receipts.log: %w", err).WithHint("choose a file that this user can write")
		}
	}
	if r.lines != nil {
		o.Written = r.lines.Write
	}
	o.LeftOut = func(n int) {
		r.log.Warn("receipts can be written again; the receipts of some refused calls are lost", "calls", n)
	}
	o.Sync = r.syncs
	o.Head = r.head
	if err := r.head.Check(ctx, r.store); err != nil {
		r.log.Error("receipts are missing; list them with toolroom audit verify", "error", err)
	}
	r.recoverReceipts(ctx)
	o.Journal = receipt.NewJournal(r.journals(), r.owner)
	o.Failed = func(err error) {
		r.log.Error("the receipt journal is unavailable; calls wait for the store", "error", err)
	}
	r.recorder = receipt.NewRecorder(r.store, o)
	return nil
}

// syncs reports whether the receipt of a call must be on disk before the call returns.
func (r *App) syncs(of *toolroom.Receipt) bool {
	switch r.Config().Receipts.Sync {
	case config.SyncAlways:
		return true
	case config.SyncNever:
		return false
	default:
		return of.Effects != toolroom.EffectsNone
	}
}

// journals is the folder of receipts that processes have recorded but not yet stored.
func (r *App) journals() string { return filepath.Join(r.storeFolder, "receipts.journal") }

// recoverReceipts stores the receipts that killed processes had recorded but not stored.
func (r *App) recoverReceipts(ctx context.Context) {
	n, damaged, err := receipt.Recover(ctx, r.journals(), proc.Alive, r.store)
	if err != nil && ctx.Err() == nil {
		r.log.Error("cannot recover the receipts of a killed process", "folder", r.journals(), "error", err)
	}
	if n > 0 || damaged > 0 {
		r.log.Info("recovered the receipts of a killed process", "receipts", n, "damaged", damaged)
	}
}

// receiptLog removes secrets from the records of calls, and so from the store, exports, log
// lines and collectors, whatever member a source has put them into. Surfaces can watch it.
type receiptLog struct {
	run.Receipts
	secrets *secret.Redactor

	mu       sync.Mutex
	watchers []*receiptWatcher
}

type receiptWatcher struct{ see func(*toolroom.Receipt) }

// Watch calls see with the receipt of each call, before it is recorded, until stop is
// called. Calls that end at the same time call see at the same time.
func (r *receiptLog) Watch(see func(*toolroom.Receipt)) (stop func()) {
	w := &receiptWatcher{see}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.watchers = append(slices.Clone(r.watchers), w)
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.watchers = slices.DeleteFunc(slices.Clone(r.watchers), func(other *receiptWatcher) bool { return other == w })
	}
}

// Append records a call.
func (r *receiptLog) Append(ctx context.Context, rec *receipt.Draft) error {
	r.mu.Lock()
	watchers := r.watchers
	r.mu.Unlock()
	for _, w := range watchers {
		w.see(&rec.Receipt)
	}
	if clean := r.redacted(&rec.Receipt); clean != &rec.Receipt {
		rec = &receipt.Draft{Receipt: *clean, Called: rec.Called, Refused: rec.Refused}
	}
	return r.Receipts.Append(ctx, rec)
}

// Intend records that a call is about to run.
func (r *receiptLog) Intend(ctx context.Context, rec *toolroom.Receipt, owner string) error {
	return r.Receipts.Intend(ctx, r.redacted(rec), owner)
}

// redacted returns rec without secrets, or rec itself if it has none.
func (r *receiptLog) redacted(rec *toolroom.Receipt) *toolroom.Receipt {
	if r.secrets.Empty() {
		return rec
	}
	text, err := json.Marshal(rec)
	if err != nil { // the store omits what is not valid JSON, and keeps the rest
		rec = writable(rec)
		if text, err = json.Marshal(rec); err != nil {
			return &toolroom.Receipt{ID: rec.ID, Status: rec.Status, Effects: rec.Effects, Started: rec.Started}
		}
	}
	clean := r.secrets.Redact(text)
	if len(clean) == len(text) && bytes.Equal(clean, text) {
		return rec
	}
	out := &toolroom.Receipt{}
	if json.Unmarshal(clean, out) != nil { // a number or a time was a secret
		out = &toolroom.Receipt{
			ID: r.secrets.Text(rec.ID), Tool: r.secrets.Text(rec.Tool), Surface: rec.Surface, Status: rec.Status, Effects: rec.Effects,
			Started: rec.Started,
		}
	}
	return out
}

// writable returns a copy of rec without the parts that cannot be encoded as JSON.
func writable(rec *toolroom.Receipt) *toolroom.Receipt {
	out := *rec
	if len(out.Arguments) > 0 && !json.Valid(out.Arguments) {
		out.Arguments = json.RawMessage(`"(left out: not valid JSON)"`)
	}
	if out.Error != nil {
		e := *out.Error
		e.Details, e.Facts = nil, toolroom.Facts{}
		out.Error = &e
	}
	return &out
}

// closeLogs writes and sends the remaining lines after the recorder has ended.
func (r *App) closeLogs() error {
	var errs []error
	if r.collector != nil {
		ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
		defer cancel()
		errs = append(errs, r.collector.Close(ctx))
		r.collector = nil
	}
	errs = append(errs, r.lines.Close())
	r.lines = nil
	return errors.Join(errs...)
}

// ReopenLog reopens the file of receipts.log after it was moved.
func (r *App) ReopenLog() error { return r.lines.Reopen() }

// mustRecord reports whether calls of a tool are recorded before they run.
func (r *App) mustRecord(t *toolroom.Tool) bool {
	c := r.Config()
	return len(c.Receipts.Must) > 0 && c.Receipts.MustRecord(r.selects(t))
}

// settleIntents records calls whose process died while they ran.
func (r *App) settleIntents(ctx context.Context) {
	r.recoverReceipts(ctx) // first, because a call that has a receipt has ended
	n, err := r.store.SettleIntents(ctx, proc.Alive, func(lost *toolroom.Receipt) {
		lost.Status, lost.Effects = toolroom.StatusError, toolroom.EffectsUnknown
		lost.Error = &toolroom.Error{
			Code: toolroom.CodeInternal, Phase: toolroom.PhaseExecute, Tool: lost.Tool,
			Message: "the process that ran the call ended before the call did; its effects are unknown",
		}
	})
	if err != nil && ctx.Err() == nil {
		r.log.Error("cannot record calls that never ended", "error", err)
	}
	if n > 0 {
		r.log.Warn("an earlier process ended during calls; their receipts report unknown effects", "calls", n)
	}
}

// forget removes data whose retention time, as set in the config, has passed.
func (r *App) forget(ctx context.Context, now time.Time) {
	c := r.Config()
	report := func(what string, err error) {
		if err != nil && ctx.Err() == nil {
			r.log.Error(fmt.Sprintf("cannot remove old %s", what), "error", err)
		}
	}
	_, err := r.approvals.Sweep(ctx, now.Add(-c.Approvals.Keep))
	report("approvals", err)
	_, err = r.store.SweepJobs(ctx, now.Add(-c.Limits.JobTTL))
	report("results of background calls", err)
	report("schedules", r.schedules.Sweep(ctx))
	report("journals of receipts", r.store.ForgetJournals(ctx, func(journal string) bool {
		return receipt.IsGone(r.journals(), journal, proc.Alive)
	}))
	if c.Receipts.Keep > 0 {
		_, err = r.PruneReceipts(ctx, now.Add(-c.Receipts.Keep))
		report("receipts", err)
	}
}
