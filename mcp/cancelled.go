package mcp

import (
	"context"
	"encoding/json"
)

// Cancelled is the cause ([context.Cause]) with which a request's context ends if its sender
// cancelled the request with notifications/cancelled. Client and server also send its
// parameters if it ends the context of a request of their own, so that a relay passes on the
// reason of a cancellation without further code.
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
