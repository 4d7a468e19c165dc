package room

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/config"
	"github.com/toolroom/toolroom/internal/proc"
	"github.com/toolroom/toolroom/internal/receipt"
	"github.com/toolroom/toolroom/internal/receipt/linelog"
	"github.com/toolroom/toolroom/internal/receipt/otlp"
)

// openRecorder starts to record calls, as lines too where the config says so.
func (r *Room) openRecorder() error {
	o := receipt.RecorderOptions{Reserve: r.config.Receipts.Reserve}
	switch log := r.config.Receipts.Log; log {
	case "":
	case config.LogOTLP:
		r.collector = otlp.New(otlp.Options{
			Endpoint: r.config.Receipts.OTLP.Endpoint, Version: r.o.Version, Log: r.log,
			Headers: func(ctx context.Context) (map[string]string, error) {
				return r.keeper.ExpandAll(ctx, r.Config().Receipts.OTLP.Headers)
			},
		})
		o.Written = r.collector.Write
	case config.LogStdout:
		if r.o.Receipts != nil {
			r.lines = linelog.To(r.o.Receipts, r.log)
		}
	default:
		var err error
		if r.lines, err = linelog.Open(r.folder(log), r.log); err != nil {
			return toolroom.Errorf(toolroom.CodeInternal, "receipts.log: %w", err).WithHint("choose a file that this user may write")
		}
	}
	if r.lines != nil {
		o.Written = r.lines.Write
	}
	o.LeftOut = func(n int) {
		r.log.Warn("receipts can be written again; of so many refused calls none was kept", "calls", n)
	}
	r.recorder = receipt.NewRecorder(r.store, o)
	return nil
}

// closeLogs sends and writes what is left, once the recorder has ended.
func (r *Room) closeLogs() error {
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

// ReopenLog opens the file of receipts.log anew, after it was moved away.
func (r *Room) ReopenLog() error { return r.lines.Reopen() }

// mustRecord reports whether the calls of a tool are recorded before they run.
func (r *Room) mustRecord(t *toolroom.Tool) bool {
	c := r.Config()
	return len(c.Receipts.Must) > 0 && c.Receipts.MustRecord(r.selects(t))
}

// settleIntents records calls whose process died while they ran.
func (r *Room) settleIntents(ctx context.Context) {
	n, err := r.store.SettleIntents(ctx, proc.Alive, func(lost *receipt.Receipt) {
		lost.Status, lost.Effects = toolroom.StatusError, toolroom.EffectsUnknown
		lost.Error = &toolroom.Error{
			Code: toolroom.CodeInternal, Phase: toolroom.PhaseExecute, Tool: lost.Tool,
			Message: "the process that ran the call ended before the call did; what it has done is unknown",
		}
	})
	if err != nil && ctx.Err() == nil {
		r.log.Error("calls that never ended were not recorded", "error", err)
	}
	if n > 0 {
		r.log.Warn("an earlier process ended while calls ran; their receipts say that their effects are unknown", "calls", n)
	}
}

// forget removes what the config says is kept long enough.
func (r *Room) forget(ctx context.Context, now time.Time) {
	c := r.Config()
	report := func(what string, err error) {
		if err != nil && ctx.Err() == nil {
			r.log.Error(fmt.Sprintf("old %s were not removed", what), "error", err)
		}
	}
	_, err := r.desk.Sweep(ctx, now.Add(-c.Approvals.Keep))
	report("approvals", err)
	_, err = r.store.SweepJobs(ctx, now.Add(-c.Limits.JobTTL))
	report("results of background calls", err)
	if c.Receipts.Keep > 0 {
		_, err = r.PruneReceipts(ctx, now.Add(-c.Receipts.Keep))
		report("receipts", err)
	}
}
