package mcpserver

import (
	"bytes"
	"encoding/json"

	"github.com/toolroom/toolroom/internal/jsonx"
)

// A batch is several messages of a client in one, whose answers go out in one as
// well, when the last has come.
type batch struct {
	open    int // requests without an answer
	answers [][]byte
}

// batches are those of a client on streams that are not answered yet, by the ids of
// their requests. An id may stand in several.
type batches map[string][]*batch

// begin takes in the messages of a batch, and gives those that are to be served.
// What is no message at all is answered at once.
func (bs *batches) begin(messages []json.RawMessage) (b *batch, serve [][]byte) {
	b = &batch{}
	for _, one := range messages {
		if !isObject(one) {
			b.answers = append(b.answers, invalidRequest)
			continue
		}
		if id, ok := requestID(one); ok {
			if *bs == nil {
				*bs = batches{}
			}
			(*bs)[id] = append((*bs)[id], b)
			b.open++
		}
		serve = append(serve, one)
	}
	return b, serve
}

// take keeps an answer of a batch until its last, and gives what is to be written
// now: nil for nothing.
func (bs batches) take(line []byte) []byte {
	if len(bs) == 0 {
		return line
	}
	id, ok := answerID(line)
	if !ok || len(bs[id]) == 0 {
		return line
	}
	b := bs[id][0]
	if bs[id] = bs[id][1:]; len(bs[id]) == 0 {
		delete(bs, id)
	}
	b.open--
	b.answers = append(b.answers, bytes.Clone(bytes.TrimRight(line, "\r\n")))
	return b.done()
}

// done is the answer to a whole batch, nil while one is missing and where nothing
// was asked.
func (b *batch) done() []byte {
	if b.open > 0 || len(b.answers) == 0 {
		return nil
	}
	text := append([]byte{'['}, bytes.Join(b.answers, []byte{','})...)
	return append(text, ']', '\n')
}

var invalidRequest = []byte(`{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"this is no message of JSON-RPC"}}`)

func requestID(message []byte) (string, bool) { return idOf(message, true) }

func answerID(message []byte) (string, bool) { return idOf(message, false) }

// idOf is the id of a request, or of an answer, the same for each way to write it.
func idOf(message []byte, request bool) (string, bool) {
	members, err := jsonx.Members(bytes.TrimSpace(message))
	if err != nil {
		return "", false
	}
	var id json.RawMessage
	method := false
	for _, m := range members {
		switch m.Name {
		case "id":
			id = m.Value
		case "method":
			method = true
		}
	}
	if len(id) == 0 || method != request || string(id) == "null" {
		return "", false
	}
	var text string
	if json.Unmarshal(id, &text) == nil {
		return "s" + text, true
	}
	return "n" + string(id), true
}
