package mcp

import (
	"context"
	"encoding/json"
)

// Cancelled is the cause ([context.Cause]) of the end of a request that its sender
// cancelled with notifications/cancelled. Both halves set it, and both send its
// parameters on if it ends the context of a request of their own: a relay passes the
// reason of a cancellation on without further code.
type Cancelled struct {
	// Params are the parameters of notifications/cancelled, as they were sent.
	Params json.RawMessage
}

// Error returns the reason in the message.
func (c *Cancelled) Error() string {
	var params struct {
		Reason string `json:"reason"`
	}
	if json.Unmarshal(c.Params, &params) != nil || params.Reason == "" {
		return context.Canceled.Error()
	}
	return params.Reason
}

// Is reports whether target is [context.Canceled].
func (c *Cancelled) Is(target error) bool { return target == context.Canceled }
