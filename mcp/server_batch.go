package mcp

import (
	"bytes"
	"encoding/json"
	"errors"
)

// batch is several messages of a client in one, whose answers go out in one as well,
// when the last has come.
type batch struct {
	open    int // requests without an answer
	answers [][]byte
}

// newBatch returns a batch in which the messages that are none have their answers.
func newBatch(messages []*incoming, failures []error) *batch {
	b := &batch{}
	for i, m := range messages {
		switch {
		case failures[i] != nil:
			b.answers = append(b.answers, failureText(failures[i]))
		case m.Method != "" && m.ID != nil:
			b.open++
		}
	}
	return b
}

// add takes in the answer to a message, and returns the answer to the whole batch if it
// was the last.
func (b *batch) add(answer []byte) []byte {
	b.open--
	b.answers = append(b.answers, bytes.Clone(answer))
	return b.done()
}

// done returns the answer to a whole batch, or nil while one is missing and if nothing
// was asked.
func (b *batch) done() []byte {
	if b.open > 0 || len(b.answers) == 0 {
		return nil
	}
	text := append([]byte{'['}, bytes.Join(b.answers, []byte{','})...)
	return append(text, ']')
}

// failureText returns the answer to a member of a batch that is not a message.
func failureText(err error) []byte {
	if not := (*errNotMessage)(nil); errors.As(err, &not) && answerable(not.id) {
		return refusal(err)
	}
	return notAMessage
}

var notAMessage = json.RawMessage(`{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"this is no message of JSON-RPC"}}`)
