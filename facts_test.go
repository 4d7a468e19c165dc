package toolroom

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestFactsAreMembersOfDetailsInJSON(t *testing.T) {
	t.Parallel()
	e := Errorf(CodeApprovalRequired, "a < b")
	e.Details = map[string]any{"reason": "r"}
	e.Facts = Facts{
		Effects: EffectsNone, Approval: "apr_1", Run: "call_1", Limit: "calls", RetryAfter: 1500 * time.Millisecond, HTTPStatus: 503,
		Missing: map[string]any{"elicitation": map[string]any{}},
		RPC:     &RPCError{Code: -32602, Message: "no", Data: json.RawMessage(`{"n":9007199254740993}`), Sent: json.RawMessage(`{"code":-32602,"x":1}`)},
	}
	const want = `{"code":"approval_required","message":"a < b","retryable":true,"details":{"approval":"apr_1","effects":"none","limit":"calls","reason":"r",` +
		`"requiredCapabilities":{"elicitation":{}},"retry_after_seconds":1.5,"rpc_code":-32602,"rpc_data":{"n":9007199254740993},"rpc_message":"no",` +
		`"rpc_sent":{"code":-32602,"x":1},"run":"call_1","status":503}}` + "\n"
	var text bytes.Buffer
	enc := json.NewEncoder(&text)
	enc.SetEscapeHTML(false)
	for name, v := range map[string]any{"a pointer": e, "a value": *e} {
		text.Reset()
		if err := enc.Encode(v); err != nil || text.String() != want {
			t.Errorf("%s: %v\n%s\nwant\n%s", name, err, text.String(), want)
		}
	}
	if escaped, err := json.Marshal(e); err != nil || !bytes.Contains(escaped, []byte(`a \u003c b`)) {
		t.Errorf("an encoder that escapes HTML is not obeyed: %v %s", err, escaped)
	}
	if len(e.Details) != 1 {
		t.Errorf("encoding has changed the details: %v", e.Details)
	}
	var back Error
	if err := json.Unmarshal(text.Bytes(), &back); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(*e, back); diff != "" {
		t.Error(diff)
	}
}

func TestADetailThatIsNoFactStaysADetail(t *testing.T) {
	t.Parallel()
	const text = `{"code":"internal","message":"m","retryable":false,"details":{"effects":{"a":1},"limit":5,"retry_after_seconds":"soon","run":null,"x":[1]}}`
	var e Error
	if err := json.Unmarshal([]byte(text), &e); err != nil {
		t.Fatal(err)
	}
	if e.Facts != (Facts{}) {
		t.Errorf("got facts %+v", e.Facts)
	}
	if back, err := json.Marshal(e); err != nil || string(back) != text {
		t.Errorf("%v\n%s\nwant\n%s", err, back, text)
	}
}

func TestAnErrorWithoutFactsHasItsDetailsAlone(t *testing.T) {
	t.Parallel()
	e := Errorf(CodeDenied, "no")
	if text, err := json.Marshal(e); err != nil || string(text) != `{"code":"denied","message":"no","retryable":false}` {
		t.Errorf("%v %s", err, text)
	}
	if all := e.AllDetails(); all != nil {
		t.Errorf("got %v", all)
	}
}
