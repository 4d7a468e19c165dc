package code

import (
	"encoding/json"
	"maps"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/bridge"
)

// reserveCalls counts n tool calls before they are made: all or none. The engine counts a
// program's requests, but a chain is one request with many calls.
func (h *handler) reserveCalls(n int) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.callsMade+n > h.maxCalls {
		h.callsExceeded = true
		if n == 1 || h.callsMade == h.maxCalls {
			return bridge.OverCalls(h.maxCalls)
		}
		return toolroom.Errorf(toolroom.CodeBudgetExceeded, "the chain has %d steps, but the program has only %d of its %d tool calls left", n, h.maxCalls-h.callsMade, h.maxCalls).
			WithHint("make the chain shorter, or ask for a higher limit of calls")
	}
	h.callsMade += n
	return nil
}

// exceededCalls reports whether the program asked for more calls than its limit.
func (h *handler) exceededCalls() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.callsExceeded
}

// returnCalls gives back n reserved calls that were not made.
func (h *handler) returnCalls(n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.callsMade -= n
}

// asBudgetError changes the code of an engine's error if the program exceeded its limit of
// calls: that is budget_exceeded, whether the engine or the handler stopped the program.
func asBudgetError(err error) error {
	if err == nil {
		return nil
	}
	e := *toolroom.AsError(err)
	if e.Code != toolroom.CodeResourceLimit || e.Limit != "calls" {
		return err
	}
	e.Code = toolroom.CodeBudgetExceeded
	return &e
}

func refusedCall(tool string, err error) *toolroom.Result {
	e := toolroom.AsError(err)
	return &toolroom.Result{Tool: tool, Status: e.Code.Info().Status, Effects: toolroom.EffectsNone, Error: e}
}

// maxStepBytes is the largest JSON of all steps with which a chain's error repeats their
// values. If it is larger, the error contains only the outcome of each step.
const maxStepBytes = 1 << 20

// step describes one step of a failed chain to a program. It contains nothing that differs
// when a program is resumed elsewhere, such as times.
type step struct {
	Tool    string          `json:"tool"`
	Skipped bool            `json:"skipped,omitempty"`
	Status  toolroom.Status `json:"status,omitempty"`
	Value   json.RawMessage `json:"value,omitempty"`
	Text    string          `json:"text,omitempty"`
	Error   *toolroom.Error `json:"error,omitempty"`
}

// chainError returns the error of a failed chain, with the steps so far and the index of
// the failed step, counted from 0.
func chainError(out *toolroom.ChainResult) error {
	steps := make([]step, len(out.Steps))
	for i, s := range out.Steps {
		steps[i] = step{Tool: s.Tool, Skipped: s.Skipped}
		if r := s.Result; r != nil {
			steps[i].Status, steps[i].Value, steps[i].Error = toolroom.StatusOK, r.Value, r.Error
			if r.Error != nil {
				steps[i].Status = r.Error.Code.Info().Status
			} else if len(r.Value) == 0 {
				steps[i].Text = r.Text()
			}
		}
	}
	if text, err := json.Marshal(steps); err != nil || len(text) > maxStepBytes {
		for i := range steps {
			steps[i].Value, steps[i].Text = nil, ""
		}
	}
	e := *out.Error
	e.Details = map[string]any{}
	maps.Copy(e.Details, out.Error.Details)
	e.Details["steps"] = steps
	if out.Failed != nil {
		e.Details["failed"] = *out.Failed
	}
	return &e
}
