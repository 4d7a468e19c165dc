package secret_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/toolroom/toolroom"
)

func TestNoPartOfAnErrorKeepsASecret(t *testing.T) {
	t.Parallel()
	const value = "hunter2hunter2"
	m := redactor(map[string]string{"a/b": value})
	e := toolroom.Errorf(toolroom.CodeUpstreamError, "%s", value).WithHint("%s", value)
	e.Cause = fmt.Errorf("cause %s", value)
	e.Details = map[string]any{"d": value}
	e.Missing = map[string]any{value: value}
	e.RPC = &toolroom.RPCError{
		Code: -32000, Message: value, Data: json.RawMessage(`{"x":"` + value + `"}`), Sent: json.RawMessage(`{"code":-32000,"y":"` + value + `"}`),
	}
	out := m.Error(e)
	text, err := json.Marshal(out)
	if err != nil {
		t.Fatal(err)
	}
	if all := string(text) + out.Cause.Error(); strings.Contains(all, value) {
		t.Error(all)
	}
	if out.RPC.Code != -32000 || !json.Valid(out.RPC.Data) || !json.Valid(out.RPC.Sent) {
		t.Errorf("got %+v", out.RPC)
	}
	if e.RPC.Message != value || e.Details["d"] != value {
		t.Error("the error itself was changed")
	}
}
