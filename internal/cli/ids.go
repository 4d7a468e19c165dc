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
func (a *cli) receiptID(ctx context.Context, r *app.App, typed string) (string, error) {
	if one, err := r.Receipt(ctx, typed); err == nil {
		return one.ID, nil
	}
	receipts, err := r.Receipts(ctx, toolroom.ReceiptQuery{Limit: receipt.MaxLimit})
	if err != nil {
		return "", err
	}
	return nearest.ID(typed, idsOf(receipts, func(r *toolroom.Receipt) string { return r.ID }))
}

// approvalID completes the id of an approval.
func approvalID(ctx context.Context, r *app.App, typed string) (string, error) {
	all, err := r.Approvals(ctx, "")
	if err != nil {
		return "", err
	}
	return nearest.ID(typed, idsOf(all, func(a *toolroom.Approval) string { return a.ID }))
}

// jobID completes the id of a suspended program or background call.
func jobID(ctx context.Context, r *app.App, typed string) (string, error) {
	jobs, err := r.Jobs(ctx, "", receipt.MaxLimit)
	if err != nil {
		return "", err
	}
	return nearest.ID(typed, idsOf(jobs, func(j *run.Job) string { return j.ID }))
}

// artifactID completes the handle of an artifact or a kept result.
func artifactID(ctx context.Context, r *app.App, typed string) (string, error) {
	list, err := r.Parts().Artifacts.List(ctx, me().Key())
	if err != nil {
		return "", err
	}
	return nearest.ID(typed, idsOf(list, func(a toolroom.Artifact) string { return a.Handle }))
}

// sessionID completes the id of one of the operator's code sessions.
func sessionID(r *app.App, typed string) (string, error) {
	list, err := r.Parts().Sessions.List(me().Key())
	if err != nil {
		return "", err
	}
	return nearest.ID(typed, idsOf(list, func(one session.Info) string { return one.ID }))
}

// elevationID completes the id of a current elevation.
func elevationID(ctx context.Context, r *app.App, typed string) (string, error) {
	list, err := r.Elevations(ctx)
	if err != nil {
		return "", err
	}
	return nearest.ID(typed, idsOf(list, func(e *policy.Elevation) string { return e.ID }))
}

func idsOf[T any](list []T, id func(T) string) []string {
	ids := make([]string, len(list))
	for i, one := range list {
		ids[i] = id(one)
	}
	return ids
}

// shortIDs returns the ids as a terminal shows them: as long as is needed to tell them apart.
func (s *screen) shortIDs(ids []string) []string {
	if !s.outTerminal || s.wide {
		return ids
	}
	for n := 8; ; n++ {
		short, seen, all := make([]string, len(ids)), map[string]bool{}, true
		for i, id := range ids {
			kind, rest, ok := strings.Cut(id, "_")
			if !ok {
				kind, rest = "", id
			} else {
				kind += "_"
			}
			all = all && n >= len(rest)
			short[i] = kind + rest[:min(n, len(rest))]
			seen[short[i]] = true
		}
		if len(seen) == len(ids) || all {
			return short
		}
	}
}
