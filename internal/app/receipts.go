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
	"github.com/toolroom/toolroom/internal/run"
	"github.com/toolroom/toolroom/internal/secret"
)

// openRecorder starts recording calls, also as log lines if the config asks for them.
func (a *App) openRecorder(ctx context.Context) error {
	o := receipt.RecorderOptions{Reserve: a.config.Receipts.Reserve}
	switch log := a.config.Receipts.Log; log {
	case "":
	case config.LogOTLP:
		a.receiptCollector = receipt.NewOTLP(receipt.OTLPOptions{
			Endpoint: a.config.Receipts.OTLP.Endpoint, Version: a.o.Version, Log: a.log,
			Headers: func(ctx context.Context) (map[string]string, error) {
				return a.resolver.ExpandAll(ctx, a.Config().Receipts.OTLP.Headers)
			},
		})
		o.OnStored = a.receiptCollector.Write
	case config.LogStdout:
		if a.o.Receipts != nil {
			a.receiptQueue = receipt.NewLineQueue(a.o.Receipts, a.log)
			a.receiptLines = receipt.LinesTo(a.receiptQueue, a.log)
		}
	default:
		var err error
		if a.receiptLines, err = receipt.OpenLines(a.resolvePath(log), a.log); err != nil {
			return toolroom.Errorf(toolroom.CodeInternal, "receipts.log: %w", err).WithHint("choose a file that this user can write")
		}
	}
	if a.receiptLines != nil {
		o.OnStored = a.receiptLines.Write
	}
	o.OnDropped = func(n int) {
		a.log.Warn("receipts can be written again; the receipts of some refused calls are lost", "calls", n)
	}
	o.Sync = a.mustSync
	o.Head = a.receiptHead
	if err := a.receiptHead.Check(ctx, a.store); err != nil {
		a.log.Error("receipts are missing; list them with toolroom audit verify", "error", err)
	}
	a.recoverReceipts(ctx)
	o.Journal = receipt.NewJournal(a.journalFolder(), a.owner)
	o.OnError = func(err error) {
		a.log.Error("the receipt journal is unavailable; calls wait for the store", "error", err)
	}
	a.recorder = receipt.NewRecorder(a.store, o)
	return nil
}

// mustSync reports whether the receipt of a call must be on disk before the call returns.
func (a *App) mustSync(of *toolroom.Receipt) bool {
	switch a.Config().Receipts.Sync {
	case config.SyncAlways:
		return true
	case config.SyncNever:
		return false
	default:
		return of.Effects != toolroom.EffectsNone
	}
}

// journalFolder returns the folder of receipts that processes have recorded but not stored
// yet.
func (a *App) journalFolder() string { return filepath.Join(a.storeFolder, "receipts.journal") }

// recoverReceipts stores the receipts that killed processes had recorded but not stored.
func (a *App) recoverReceipts(ctx context.Context) {
	n, damaged, err := receipt.Recover(ctx, a.journalFolder(), proc.Alive, a.store)
	if err != nil && ctx.Err() == nil {
		a.log.Error("cannot recover the receipts of a killed process", "folder", a.journalFolder(), "error", err)
	}
	if damaged > 0 {
		a.log.Warn("receipts of a killed process are lost: its journal is damaged", "lines", damaged)
	}
	if n > 0 {
		a.log.Info("recovered the receipts of a killed process", "receipts", n)
	}
}

// receiptLog redacts the receipts of calls before they are recorded, and so in the store,
// exports, log lines and collectors. Surfaces can watch it.
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
		rec = &receipt.Draft{Receipt: *clean, RawArguments: rec.RawArguments, Refused: rec.Refused}
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
		rec = withoutUnencodable(rec)
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

// withoutUnencodable returns a copy of rec without the parts that cannot be encoded as
// JSON.
func withoutUnencodable(rec *toolroom.Receipt) *toolroom.Receipt {
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
func (a *App) closeLogs() error {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	var errs []error
	if a.receiptCollector != nil {
		errs = append(errs, a.receiptCollector.Close(ctx))
	}
	return errors.Join(append(errs, a.receiptQueue.Close(ctx), a.receiptLines.Close())...)
}

// ReopenLog reopens the file of receipts.log after it was moved.
func (a *App) ReopenLog() error { return a.receiptLines.Reopen() }

// mustRecord reports whether calls of a tool are recorded before they run.
func (a *App) mustRecord(t *toolroom.Tool) bool {
	c := a.Config()
	return len(c.Receipts.Must) > 0 && c.Receipts.MustRecord(a.patternMatcher(t))
}

// settleIntents records the calls whose process died while they ran.
func (a *App) settleIntents(ctx context.Context) {
	a.recoverReceipts(ctx) // first, because a call that has a receipt has ended
	n, err := a.store.SettleIntents(ctx, proc.Alive, func(lost *toolroom.Receipt) {
		lost.Status, lost.Effects = toolroom.StatusError, toolroom.EffectsUnknown
		lost.Error = &toolroom.Error{
			Code: toolroom.CodeInternal, Phase: toolroom.PhaseExecute, Tool: lost.Tool,
			Message: "the process that ran the call ended before the call did; its effects are unknown",
		}
	})
	if err != nil && ctx.Err() == nil {
		a.log.Error("cannot record calls that never ended", "error", err)
	}
	if n > 0 {
		a.log.Warn("an earlier process ended during calls; their receipts report unknown effects", "calls", n)
	}
}

// removeOldData removes data that is older than the retention times of the config.
func (a *App) removeOldData(ctx context.Context, now time.Time) {
	c := a.Config()
	report := func(what string, err error) {
		if err != nil && ctx.Err() == nil {
			a.log.Error(fmt.Sprintf("cannot remove old %s", what), "error", err)
		}
	}
	_, err := a.approvals.Sweep(ctx, now.Add(-c.Approvals.Keep))
	report("approvals", err)
	_, err = a.store.SweepJobs(ctx, now.Add(-c.Limits.JobTTL))
	report("results of background calls", err)
	report("schedules", a.schedules.Sweep(ctx))
	report("journals of receipts", a.store.ForgetJournals(ctx, func(journal string) bool {
		return receipt.IsGone(a.journalFolder(), journal, proc.Alive)
	}))
	if c.Receipts.Keep > 0 {
		_, err = a.PruneReceipts(ctx, now.Add(-c.Receipts.Keep))
		report("receipts", err)
	}
}
