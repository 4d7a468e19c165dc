package mcpserver

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"net/http"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/toolroom/toolroom"
)

// The SDK serves each request of an older session in the context of the session's first
// one. A token of the same subject may have other scopes and groups, so each call must be
// made by the identity of its own request: it travels in a header that only this process
// knows, because that is what the SDK passes on of a request.
var requesterHeader = http.CanonicalHeaderKey("Toolroom-Requester-" + rand.Text())

type requesterKey struct{}

// withRequester puts the identity of a request into its header.
func withRequester(r *http.Request, who toolroom.Identity) error {
	text, err := json.Marshal(who)
	if err == nil {
		r.Header.Set(requesterHeader, string(text))
	}
	return err
}

// identified is the middleware that puts the identity of each request into its context.
func identified(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		if extra := req.GetExtra(); extra != nil {
			if text := extra.Header.Get(requesterHeader); text != "" {
				var who toolroom.Identity
				if err := json.Unmarshal([]byte(text), &who); err != nil {
					return nil, rpcError(toolroom.AsError(err))
				}
				ctx = context.WithValue(ctx, requesterKey{}, who)
			}
		}
		return next(ctx, method, req)
	}
}

// byRequest returns a function that returns the identity that identified has put into the
// context, or else what given returns.
func byRequest(given func(context.Context) toolroom.Identity) func(context.Context) toolroom.Identity {
	return func(ctx context.Context) toolroom.Identity {
		if who, ok := ctx.Value(requesterKey{}).(toolroom.Identity); ok {
			return who
		}
		return given(ctx)
	}
}
