package cli

import (
	"context"
	"strings"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/app"
	"github.com/toolroom/toolroom/internal/nearest"
	"github.com/toolroom/toolroom/internal/policy"
	"github.com/toolroom/toolroom/internal/receipt"
	"github.com/toolroom/toolroom/internal/run"
	"github.com/toolroom/toolroom/internal/session"
)

// receiptID completes the id of one of the newest calls.
func receiptID(ctx context.Context, r *app.App, typed string) (string, error) {
	if one, err := r.Receipt(ctx, typed); err == nil {
		return one.ID, nil
	}
	receipts, err := r.Receipts(ctx, toolroom.ReceiptQuery{Limit: receipt.MaxLimit})
	return completeID(typed, receipts, err, func(r *toolroom.Receipt) string { return r.ID })
}

// approvalID completes the id of an approval.
func approvalID(ctx context.Context, r *app.App, typed string) (string, error) {
	all, err := r.Approvals(ctx, "")
	return completeID(typed, all, err, func(a *toolroom.Approval) string { return a.ID })
}

// jobID completes the id of a suspended program or background call.
func jobID(ctx context.Context, r *app.App, typed string) (string, error) {
	jobs, err := r.Jobs(ctx, "", receipt.MaxLimit)
	id, err := completeID(typed, jobs, err, func(j *run.Job) string { return j.ID })
	if err != nil {
		return "", err
	}
	if _, err := r.Job(ctx, id); toolroom.CodeOf(err) == toolroom.CodeNotFound {
		return "", toolroom.Errorf(toolroom.CodeNotFound, "run %q not found", typed).WithHint("list the runs: toolroom runs")
	}
	return id, nil
}

// artifactID completes the handle of an artifact or a kept result.
func artifactID(ctx context.Context, r *app.App, typed string) (string, error) {
	list, err := r.Parts().Artifacts.List(ctx, operator().Key())
	return completeID(typed, list, err, func(a toolroom.Artifact) string { return a.Handle })
}

// sessionID completes the id of one of the operator's code sessions.
func sessionID(r *app.App, typed string) (string, error) {
	list, err := r.Parts().Sessions.List(operator().Key())
	return completeID(typed, list, err, func(one session.Info) string { return one.ID })
}

// elevationID completes the id of a current elevation.
func elevationID(ctx context.Context, r *app.App, typed string) (string, error) {
	list, err := r.Elevations(ctx)
	return completeID(typed, list, err, func(e *policy.Elevation) string { return e.ID })
}

// completeID returns the id in a list that typed begins, or the error with which the list
// was read.
func completeID[T any](typed string, list []T, err error, id func(T) string) (string, error) {
	if err != nil {
		return "", err
	}
	return nearest.ID(typed, textsOf(list, id))
}

// textsOf returns a text for each item of a list, such as its id.
func textsOf[T any](list []T, text func(T) string) []string {
	texts := make([]string, len(list))
	for i, one := range list {
		texts[i] = text(one)
	}
	return texts
}

// shortIDs returns, by id, the part that a terminal shows: as much as distinguishes the ids.
func (s *screen) shortIDs(ids []string) map[string]string {
	for n := 8; ; n++ {
		short, seen, all := map[string]string{}, map[string]bool{}, true
		for _, id := range ids {
			start := strings.IndexByte(id, '_') + 1 // the kind stays whole
			end := min(start+n, len(id))
			if !s.outTerminal || s.wide {
				end = len(id)
			}
			all = all && end == len(id)
			short[id] = id[:end]
			seen[id[:end]] = true
		}
		if len(seen) == len(short) || all {
			return short
		}
	}
}
