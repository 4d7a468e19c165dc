package cli

import (
	"context"
	"strings"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/app"
	"github.com/toolroom/toolroom/internal/receipt"
	"github.com/toolroom/toolroom/internal/run"
)

// leastID is the least number of characters of a shortened id, without its kind.
const leastID = 4

// fullID returns the id that typed is, or begins, among ids; the kind (call_, apr_, …) may be
// left out. If there is none, it returns typed, and the command reports that.
func fullID(typed string, ids []string) (string, error) {
	var found []string
	for _, id := range ids {
		if id == typed {
			return id, nil
		}
		_, rest, _ := strings.Cut(id, "_")
		if rest == "" {
			rest = id
		}
		_, short, ok := strings.Cut(typed, "_")
		if !ok {
			short = typed
		}
		if len(short) >= leastID && (strings.HasPrefix(id, typed) || strings.HasPrefix(rest, typed)) {
			found = append(found, id)
		}
	}
	switch len(found) {
	case 0:
		return typed, nil
	case 1:
		return found[0], nil
	}
	return "", toolroom.Errorf(toolroom.CodeInvalidID, "%q is the beginning of %d ids", typed, len(found)).
		WithHint("type more of one: %s", strings.Join(found[:min(len(found), 5)], ", "))
}

// receiptID completes the id of one of the newest calls.
func (a *cli) receiptID(ctx context.Context, r *app.App, typed string) (string, error) {
	if one, err := r.Receipt(ctx, typed); err == nil {
		return one.ID, nil
	}
	receipts, err := r.Receipts(ctx, toolroom.ReceiptQuery{Limit: receipt.MaxLimit})
	if err != nil {
		return "", err
	}
	return fullID(typed, idsOf(receipts, func(r *toolroom.Receipt) string { return r.ID }))
}

// approvalID completes the id of an approval.
func approvalID(ctx context.Context, r *app.App, typed string) (string, error) {
	all, err := r.Approvals(ctx, "")
	if err != nil {
		return "", err
	}
	return fullID(typed, idsOf(all, func(a *toolroom.Approval) string { return a.ID }))
}

// jobID completes the id of a suspended program or background call.
func jobID(ctx context.Context, r *app.App, typed string) (string, error) {
	jobs, err := r.Jobs(ctx, "", receipt.MaxLimit)
	if err != nil {
		return "", err
	}
	return fullID(typed, idsOf(jobs, func(j *run.Job) string { return j.ID }))
}

// artifactID completes the handle of an artifact or a kept result.
func artifactID(ctx context.Context, r *app.App, typed string) (string, error) {
	list, err := r.Parts().Artifacts.List(ctx, me().Key())
	if err != nil {
		return "", err
	}
	return fullID(typed, idsOf(list, func(a toolroom.Artifact) string { return a.Handle }))
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
