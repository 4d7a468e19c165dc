package mcp

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"strings"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/receipt"
	"github.com/toolroom/toolroom/source"
)

// completionTool is the name, within a namespace, under which completions are recorded.
const completionTool = "completion.complete"

// completionReceipt returns the receipt of a completion that is about to be requested.
// Like a call, a completion sends the client's text to a server.
func (s *Server) completionReceipt(provider string, ask source.Completion) *receipt.Draft {
	arguments, err := json.Marshal(map[string]string{
		"prompt": ask.Prompt, "template": ask.Template, "argument": ask.Argument, "value": ask.Value,
	})
	if err != nil {
		arguments = nil
	}
	started := s.o.Runner.Now()
	return &receipt.Draft{Receipt: toolroom.Receipt{
		ID:   "completion_" + strings.ToLower(rand.Text()),
		Tool: provider + ":" + completionTool, Surface: "mcp", Identity: ask.Identity, Source: toolroom.SourceMCP,
		Arguments: s.o.Runner.Secrets.Redact(arguments), Started: started,
	}}
}

// recordCompletion stores the receipt of a completion that has ended.
func (s *Server) recordCompletion(ctx context.Context, r *receipt.Draft, failed error) error {
	if s.o.Runner.Receipts == nil {
		return nil
	}
	r.Status, r.Effects = toolroom.StatusOK, toolroom.EffectsDone
	if failed != nil {
		e := *toolroom.AsError(failed)
		e.Details, e.Cause, e.Hint = nil, nil, ""
		r.Error, r.Status, r.Effects = &e, e.Code.Info().Status, toolroom.EffectsUnknown
	}
	r.Usage.Run = max(s.o.Runner.Now().Sub(r.Started), time.Nanosecond)
	return s.o.Runner.Receipts.Append(context.WithoutCancel(ctx), r)
}
