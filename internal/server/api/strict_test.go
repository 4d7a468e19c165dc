package api_test

import (
	"context"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/source"
)

func TestABodyThatCanBeReadInTwoWaysIsRefused(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	var ran atomic.Int64
	b.add("a:count", func(context.Context, *source.Request) (*source.Output, error) {
		ran.Add(1)
		return &source.Output{Value: []byte("null")}, nil
	})
	for _, c := range []struct{ path, body string }{
		{"/call", `{"tool": "echo:it", "Tool": "a:count"}`},
		{"/call", `{"TOOL": "a:count"}`},
		{"/call", `{"tool": "echo:it", "tool": "a:count"}`},
		{"/call", `{"tool": "a:count", "arguments": {}, "arguments": {"a": 1}}`},
		{"/call", `{"tool": "a:count", "arguments": {"a": 1, "a": 2}}`},
		{"/call", `{"tool": "a:count"}}`},
		{"/call", `{"tool": "a:count"}]`},
		{"/call", `{"tool": "a:count"} {"tool": "echo:it"}`},
		{"/tools/a:count/call", `{"arguments": {}, "Arguments": {}}`},
		{"/chain", `{"steps": [{"tool": "echo:it", "Tool": "a:count"}]}`},
		{"/chain", `{"steps": [{"tool": "a:count"}], "Steps": []}`},
		{"/batch", `{"calls": [{"tool": "echo:it", "tool": "a:count"}]}`},
		{"/batch", `{"calls": [{"tool": "a:count"}], "CALLS": []}`},
		{"/execute", `{"language": "shell", "Language": "js", "code": ""}`},
		{"/approvals/a1", `{"approve": false, "Approve": true}`},
		{"/approvals/a1", `{"approve": false, "approve": true}`},
		{"/approvals/a1", `{"approve": true}}`},
	} {
		r := b.post(c.path, c.body)
		if r.status != http.StatusUnprocessableEntity || r.code(t) != toolroom.CodeInvalidArguments {
			t.Errorf("%s %s: %d %s", c.path, c.body, r.status, r.body)
		}
	}
	if n := ran.Load(); n > 0 {
		t.Errorf("%d calls ran", n)
	}
}

// The names of Go types are of no use to who sends JSON.
func TestABodyOfAnotherTypeIsRefusedInWordsOfJSON(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for _, c := range []struct{ path, body, want string }{
		{"/call", `{"tool": 5}`, "tool must be text and is number"},
		{"/call", `{"tool": "echo:it", "timeout_ms": "soon"}`, "timeout_ms must be a whole number and is string"},
		{"/call", `{"tool": "echo:it", "timeout_ms": 1.5}`, "timeout_ms must be a whole number and is number 1.5"},
		{"/call", `[]`, "the body must be an object and is array"},
		{"/chain", `{"steps": {}}`, "steps must be a list and is object"},
		{"/approvals/a1", `{"approve": "yes"}`, "approve must be true or false and is string"},
	} {
		if r := b.post(c.path, c.body); r.status != http.StatusUnprocessableEntity || !strings.Contains(string(r.body), c.want) || strings.Contains(string(r.body), "Go ") {
			t.Errorf("%s %s: %d %s", c.path, c.body, r.status, r.body)
		}
	}
}
