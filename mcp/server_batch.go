package mcp

import (
	"bytes"
	"encoding/json"
)

// batch is several messages of a client in one, whose answers go out in one as well,
// when the last has come.
type batch struct {
	open    int // requests without an answer
	answers [][]byte
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

var notAMessage = json.RawMessage(`{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"this is no message of JSON-RPC"}}`)
