package mcpserver

import (
	"bytes"
	"encoding/json"
	"io"
	"testing"
)

type nopCloser struct{ io.Writer }

func (nopCloser) Close() error { return nil }

func TestABatchIsAnsweredAsJSONRPCWantsIt(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		batch   string
		serve   int
		answers []string
		want    string
	}{
		"in one, in the order that they come, whatever is between": {
			`[{"id":1,"method":"a"},{"method":"told"},{"id":"\u0061","method":"b"}]`, 3,
			[]string{`{"id":"a","result":{}}`, `{"method":"notifications/x"}`, `{"id":7,"result":{}}`, `{"id":1,"method":"asks"}`, `{"id":1,"error":{}}`},
			`{"method":"notifications/x"}` + "\n" + `{"id":7,"result":{}}` + "\n" + `{"id":1,"method":"asks"}` + "\n" + `[{"id":"a","result":{}},{"id":1,"error":{}}]` + "\n",
		},
		"one request is a batch, too":   {`[{"id":1,"method":"a"}]`, 1, []string{`{"id":1,"result":{}}`}, `[{"id":1,"result":{}}]` + "\n"},
		"the same id twice":             {`[{"id":1,"method":"a"},{"id":1,"method":"a"}]`, 2, []string{`{"id":1,"result":1}`, `{"id":1,"error":2}`}, `[{"id":1,"result":1},{"id":1,"error":2}]` + "\n"},
		"what only tells has no answer": {`[{"method":"told"},{"id":1,"result":{}}]`, 2, nil, ""},
		"what is no message is refused": {`[1,{"method":"told"}]`, 1, nil, "[" + string(invalidRequest) + "]\n"},
		"and beside others, with these": {`["x",{"id":1,"method":"a"}]`, 1, []string{`{"id":1,"result":{}}`}, "[" + string(invalidRequest) + `,{"id":1,"result":{}}]` + "\n"},
		"an empty batch is no batch":    {`[]`, 0, nil, string(invalidRequest) + "\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out bytes.Buffer
			w := &lineWriter{WriteCloser: nopCloser{&out}}
			var messages []json.RawMessage
			if err := json.Unmarshal([]byte(c.batch), &messages); err != nil {
				t.Fatal(err)
			}
			if n := len(w.begin(messages)); n != c.serve {
				t.Errorf("%d messages are served, want %d", n, c.serve)
			}
			for _, answer := range c.answers {
				if _, err := io.WriteString(w, answer+"\n"); err != nil {
					t.Fatal(err)
				}
			}
			if out.String() != c.want {
				t.Errorf("got\n%s\nwant\n%s", out.String(), c.want)
			}
			if len(w.batches) != 0 {
				t.Errorf("%d batches are kept", len(w.batches))
			}
		})
	}
}
