package mcpserver

import (
	"bytes"
	"encoding/json"
	"testing"
)

// messages are what clients send, whole, broken off, and with what JSON has not.
var messages = []string{
	`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","arguments":{"x":1},"_meta":{"k":1},"inputResponses":{"q":{}},"requestState":"s","more":[1]}}`,
	`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","name":"b"}}`,
	`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"_meta":{"x":1,"x":2}}}`,
	`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"inputResponses":{"x":1,"x":2}}}`,
	`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":[{"name":"a"}]}`,
	`{"jsonrpc":"2.0","id":"\ud800","method":"tools/call","params":{"name":"\ud800"}}`,
}

// TestABrokenMessageIsLeftToTheSDK, wherever it breaks off: nothing is read beyond
// it, and nobody's server ends by it.
func TestABrokenMessageIsLeftToTheSDK(t *testing.T) {
	t.Parallel()
	for _, whole := range messages {
		for end := range len(whole) {
			if m, ok := readIncoming([]byte(whole[:end])); ok {
				t.Errorf("%s is taken for a message: %+v", whole[:end], m)
			}
		}
		m, ok := readIncoming([]byte(whole))
		if ok != (whole == messages[0] || whole == messages[4]) {
			t.Errorf("%s is a message: %t", whole, ok)
		}
		if ok && m.paramsStart > 0 && !json.Valid(m.named("n")) {
			t.Errorf("%s is given away as %s", whole, m.named("n"))
		}
	}
}

func FuzzIncoming(f *testing.F) {
	for _, m := range messages {
		f.Add([]byte(m))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		m, ok := readIncoming(bytes.Clone(text))
		if !ok || m.paramsStart == 0 {
			return
		}
		if !json.Valid(m.params) || m.meta != nil && !json.Valid(m.meta) || !json.Valid(m.named("n")) {
			t.Errorf("%q is given away as %q", text, m.named("n"))
		}
	})
}
