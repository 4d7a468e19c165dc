package mcpserver

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/toolroom/toolroom/internal/jsonx"
	wire "github.com/toolroom/toolroom/mcp"
)

// standIns have the SDK send what its types have no place for: notifications that
// it does not know, members of an error, the words of a cancel. It is given what it
// does know, with a mark that nobody else can guess; where that is written to the
// client, what it stands for goes out in its place.
type standIns struct{ mark []byte }

func newStandIns() standIns { return standIns{[]byte("toolroom/" + strings.ToLower(rand.Text()))} }

// of is an object that stands for a text.
func (i standIns) of(text []byte) json.RawMessage {
	object := make([]byte, 0, len(text)+len(i.mark)+8)
	object = appendMember(append(object, '{'), string(i.mark), text)
	return append(object, '}')
}

// notification are params that stand for a whole notification.
func (i standIns) notification(method string, params json.RawMessage) json.RawMessage {
	text := appendMember([]byte(`{"jsonrpc":"2.0"`), "method", appendText(nil, method))
	if len(params) > 0 {
		text = appendMember(text, "params", params)
	}
	return i.of(append(text, '}'))
}

// sentFailure is an error of the protocol as who it is from wrote it.
type sentFailure struct {
	failure *jsonrpc.Error
	sent    json.RawMessage
}

// Error is the message.
func (f *sentFailure) Error() string { return f.failure.Error() }

// Unwrap gives the error without what else was said.
func (f *sentFailure) Unwrap() error { return f.failure }

// failure is an error for the SDK, which may stand for one that says more.
func (i standIns) failure(err error) error {
	f := (*sentFailure)(nil)
	if !errors.As(err, &f) {
		return err
	}
	failure := *f.failure
	failure.Data = i.of(f.sent)
	return &failure
}

// plain is a message that the SDK writes, alone or as an event, with what stands in
// it taken for what it stands for.
func (i standIns) plain(text []byte) []byte {
	if len(i.mark) == 0 || !bytes.Contains(text, i.mark) {
		return text
	}
	from, to := bytes.IndexByte(text, '{'), bytes.LastIndexByte(text, '}')+1
	message, err := readObject(text[from:to])
	if err != nil { // the SDK writes JSON
		return text
	}
	whole := i.put(&message)
	if whole == nil {
		if whole, err = jsonx.Marshal(message); err != nil {
			return text
		}
	}
	return append(append(bytes.Clone(text[:from]), whole...), text[to:]...)
}

// put puts what stands in a message in its place, or gives the message that the
// whole of it stands for.
func (i standIns) put(message *object) json.RawMessage {
	if text := message.raw("params"); text != nil {
		if whole := i.marked(text); whole != nil {
			return whole
		}
		params, err := readObject(text)
		if err != nil {
			return nil
		}
		var reason string
		if json.Unmarshal(params.raw("reason"), &reason) == nil {
			if said, ok := strings.CutPrefix(reason, string(i.mark)); ok {
				message.set("params", withMember(json.RawMessage(said), "requestId", params.raw("requestId")))
			}
		}
		return nil
	}
	if failure, err := readObject(message.raw("error")); err == nil {
		if sent := i.marked(failure.raw("data")); sent != nil {
			message.set("error", sent)
		}
	}
	return nil
}

// marked is what an object stands for, nil for any other.
func (i standIns) marked(text json.RawMessage) json.RawMessage {
	if !isObject(text) {
		return nil
	}
	members, err := jsonx.Members(text)
	if err != nil || len(members) != 1 || members[0].Name != string(i.mark) {
		return nil
	}
	return members[0].Value
}

// farewell is why a question ends, for the SDK, which tells the client the text.
type farewell struct {
	*wire.Cancelled
	text string
}

// Error is the text that stands for what was said.
func (f *farewell) Error() string { return f.text }

// asking is the context of a question. The SDK tells the client of its end in the
// words of its error.
type asking struct {
	context.Context
	standIns standIns
}

// Err is why the question has ended.
func (a *asking) Err() error {
	err := a.Context.Err()
	said := (*wire.Cancelled)(nil)
	if err == nil || !errors.As(context.Cause(a.Context), &said) || !isObject(said.Params) {
		return err
	}
	return &farewell{said, string(a.standIns.mark) + string(said.Params)}
}
