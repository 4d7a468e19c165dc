package room

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/policy"
	"github.com/toolroom/toolroom/internal/receipt"
	"github.com/toolroom/toolroom/internal/taint"
)

// forgetTool stands in receipts for what an operator does to a session's labels.
const forgetTool = "toolroom:policy.forget"

// ForgetReach ends what a caller's session has in reach: an operator says that
// what it has read does not matter any more. Who, why and what is recorded, before
// it is forgotten. An empty session is that of clients that name none.
func (r *Room) ForgetReach(ctx context.Context, owner, session, by, reason string) ([]taint.Mark, error) {
	now := time.Now().UTC()
	arguments, err := json.Marshal(map[string]string{"caller": owner, "session": session, "by": by, "reason": reason})
	if err != nil {
		return nil, err
	}
	marks, err := r.store.Taints(ctx, owner, session, time.Time{})
	if err != nil {
		return nil, err
	}
	if len(marks) == 0 {
		return nil, toolroom.Errorf(toolroom.CodeNotFound, "nothing is in reach of the session %q of %s", session, owner).
			WithHint("receipts say which session: toolroom calls --by %s", owner)
	}
	record := &receipt.Receipt{
		ID: fmt.Sprintf("forget_%d", now.UnixNano()), Tool: forgetTool, Surface: "cli", Session: session, Arguments: arguments,
		Status: toolroom.StatusOK, Effects: toolroom.EffectsDone, Decision: policy.Allow, Rule: "an operator ends what is in reach", Started: now,
	}
	for _, m := range taint.Sorted(marks) {
		record.Reach = append(record.Reach, m.String())
	}
	if err := r.recorder.Append(ctx, record); err != nil {
		return nil, err
	}
	if err := r.recorder.Flush(ctx); err != nil {
		return nil, err
	}
	return r.store.RemoveTaints(ctx, owner, session)
}
