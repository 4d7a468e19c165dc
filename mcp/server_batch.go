package mcp

import (
	"bytes"
	"encoding/json"
	"errors"
)

// batch collects the responses to a batch of requests, which are sent together when the last
// one is there.
type batch struct {
	pending int // requests without a response
	answers [][]byte
}

// newBatch returns a batch with error responses for the invalid messages.
func newBatch(messages []*incoming, failures []error) *batch {
	b := &batch{}
	for i, m := range messages {
		switch {
		case failures[i] != nil:
			b.answers = append(b.answers, failureResponse(failures[i]))
		case m.Method != "" && m.ID != nil:
			b.pending++
		}
	}
	return b
}

// add adds the response to a request. If it was the last, add returns the response to the whole
// batch.
func (b *batch) add(answer []byte) []byte {
	b.pending--
	b.answers = append(b.answers, bytes.Clone(answer))
	return b.response()
}

// response returns the response to the whole batch. It is nil if one is still missing, or if the
// batch has no requests.
func (b *batch) response() []byte {
	if b.pending > 0 || len(b.answers) == 0 {
		return nil
	}
	text := append([]byte{'['}, bytes.Join(b.answers, []byte{','})...)
	return append(text, ']')
}

// failureResponse returns the response to an invalid message of a batch.
func failureResponse(err error) []byte {
	if not := (*errNotMessage)(nil); errors.As(err, &not) && isRequestID(not.id) {
		return parseErrorResponse(err)
	}
	return notAMessage
}

var notAMessage = json.RawMessage(`{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"this is no message of JSON-RPC"}}`)
