package mcpserver

import (
	"context"
	"encoding/json"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/toolroom/toolroom/internal/jsonx"
)

// rawMessage is what a client is told or asked, as its source wrote it. The SDK
// sends messages of its own types, which lose what they have no field for: it is
// given one that has the form, and this goes in its place.
type rawMessage struct {
	mcp.ParamsBase
	text json.RawMessage
}

// MarshalJSON gives the text.
func (v *rawMessage) MarshalJSON() ([]byte, error) { return v.text, nil }

type rawKey struct{}

// withRaw has the next message that is sent with the context say params. Nil
// leaves it as it is.
func withRaw(ctx context.Context, params json.RawMessage) context.Context {
	if params == nil {
		return ctx
	}
	return context.WithValue(ctx, rawKey{}, &rawMessage{text: params})
}

// exactly is the middleware that sends what is to be sent unchanged.
func (s *Server) exactly(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		said, ok := ctx.Value(rawKey{}).(*rawMessage)
		session, server := req.GetSession().(*mcp.ServerSession)
		if ok && server {
			req = &mcp.ServerRequest[*rawMessage]{Session: session, Params: said}
		} else if update := updateOf(req); update != nil && server {
			req = &mcp.ServerRequest[*rawMessage]{Session: session, Params: update}
		}
		return next(ctx, method, req)
	}
}

// updateKey is where the metadata of a resource's update has what its source said of
// it, for each client to hear with its own metadata.
const updateKey = "toolroom/update"

// updateOf is a resource's update as its source has it, nil for any other request.
func updateOf(req mcp.Request) *rawMessage {
	params, ok := req.GetParams().(*mcp.ResourceUpdatedNotificationParams)
	if !ok {
		return nil
	}
	said, ok := params.Meta[updateKey].(json.RawMessage)
	if !ok {
		return nil
	}
	update, err := readObject(said)
	if err != nil {
		return nil
	}
	if subscription, ok := params.Meta[mcp.MetaKeySubscriptionID]; ok {
		meta, _ := readObject(update.raw("_meta")) // none is as good as an empty one
		meta.set(mcp.MetaKeySubscriptionID, subscription)
		update.set("_meta", meta)
	}
	text, err := jsonx.Marshal(update)
	if err != nil {
		return nil
	}
	return &rawMessage{text: text}
}

// withMember is an object with another value for one of its members, which it has
// or gets. It is nil for what is no object.
func withMember(object json.RawMessage, name string, value any) json.RawMessage {
	o, err := readObject(object)
	if err != nil {
		return nil
	}
	o.set(name, value)
	text, err := jsonx.Marshal(o)
	if err != nil {
		return nil
	}
	return text
}
