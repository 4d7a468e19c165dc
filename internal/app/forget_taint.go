package app

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/receipt"
	"github.com/toolroom/toolroom/internal/taint"
)

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
