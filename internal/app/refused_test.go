package app_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/config"
	"github.com/toolroom/toolroom/internal/run"
)

// knock asks the proxy for one address twice and for fifty others once, and gives
// the first answer.
const knock = `
import os
from http.client import HTTPConnection
def ask(url):
    c = HTTPConnection(os.environ["HTTP_PROXY"].removeprefix("http://"))
    c.request("GET", url)
    return c.getresponse().status
answer = ask(address)
ask(address)
for i in range(50):
    ask(f"http://elsewhere-{i}.example/")
answer
`

func TestConnectionsThatAreRefusedAreInResultReceiptAndEvents(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(s.Close)
	address := s.Listener.Addr().String()
	r := withProcess(t, `{}`)
	inputs, err := json.Marshal(map[string]string{"address": "http://" + address + "/"})
	if err != nil {
		t.Fatal(err)
	}
	execute := func(sink func(toolroom.Event)) *toolroom.Result {
		t.Helper()
		result, err := r.Execute(run.WithSink(t.Context(), sink), toolroom.Call{Identity: toolroom.Identity{Subject: "ann"}}, toolroom.Program{
			Language: "python", Code: knock, Inputs: inputs, Egress: []string{address}, Runtime: "process",
		})
		if err != nil || result.Error != nil {
			t.Fatalf("%v, %+v", err, result)
		}
		return result
	}

	var warned []string
	result := execute(func(e toolroom.Event) {
		if e.Log != nil && e.Log.Level == "warning" {
			warned = append(warned, e.Log.Message)
		}
	})
	told := result.Execution.Refused
	if string(result.Value) != "403" || len(told) != 33 || told[0].Address != address || told[0].Times != 2 || !strings.Contains(told[0].Reason, "127.0.0.1") {
		t.Fatalf("value %s, refused %+v", result.Value, told)
	}
	if last := told[32]; last.Address != "" || last.Times != 50-31 {
		t.Errorf("what is too much to name is %+v", last)
	}
	if len(warned) != 33 || !strings.HasPrefix(warned[0], "a connection was refused: ") {
		t.Errorf("%d warnings: %q", len(warned), warned)
	}
	receipts, err := r.Receipts(t.Context(), toolroom.ReceiptQuery{Tool: "code:execute"})
	if err != nil || len(receipts) != 1 || len(receipts[0].Connections) != 33 || receipts[0].Connections[0] != told[0] {
		t.Errorf("the receipt is %+v, %v", receipts, err)
	}

	// What programs may reach is read again with the rest of the config.
	next, err := config.Parse("toolroom.yaml", []byte(`code: {egress: {allow: ["127.0.0.1"]}}`))
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Reload(next); err != nil {
		t.Fatal(err)
	}
	if result := execute(nil); string(result.Value) != "200" || result.Execution.Refused[0].Address == address {
		t.Errorf("value %s, refused %+v", result.Value, result.Execution.Refused)
	}
}
