package mcp_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/approval"
)

// answered is what a client of 2026-07-28 sends: a call, and the answer to the
// question that came back before.
func (f *fixture) answered(t *testing.T, subject, args, state string) map[string]any {
	t.Helper()
	extra := ""
	if state != "" {
		extra = fmt.Sprintf(`"inputResponses":{"approval":{"action":"accept","content":{"approve":true}}},"requestState":%q,`, state)
	}
	body := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"file__delete","arguments":` + args + `,` + extra + `
		"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"elicitation":{}}}}}`
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, f.url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for name, v := range map[string]string{
		"Content-Type": "application/json", "Accept": "application/json, text/event-stream", "MCP-Protocol-Version": modern,
		"Mcp-Method": "tools/call", "Mcp-Name": "file__delete", subjectHeader: subject,
	} {
		req.Header.Set(name, v)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	// The answer is a message, alone or the last of a stream of events.
	if _, last, ok := bytes.Cut(text[max(0, bytes.LastIndex(text, []byte("data: "))):], []byte("data: ")); ok {
		text = last
	}
	var answer map[string]any
	if err := json.Unmarshal(text, &answer); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return answer
}

func askedState(t *testing.T, answer map[string]any) string {
	t.Helper()
	result, _ := answer["result"].(map[string]any)
	state, _ := result["requestState"].(string)
	if state == "" {
		t.Fatalf("nobody was asked: %v", answer)
	}
	return state
}

func TestAnAnswerCountsOnlyForTheCallThatWasAskedAbout(t *testing.T) {
	t.Parallel()
	f := serve(t, direct(t))
	const mine, other = `{"path":"a"}`, `{"path":"b"}`
	state := askedState(t, f.answered(t, "", mine, ""))
	open, err := f.approvals.List(t.Context(), toolroom.ApprovalPending)
	if err != nil || len(open) != 1 {
		t.Fatal(open, err)
	}
	for name, forged := range map[string]struct{ subject, args, state string }{
		"the bare id":                   {"", mine, open[0].ID},
		"nothing":                       {"", mine, "."},
		"altered":                       {"", mine, state[1:] + "A"},
		"cut off":                       {"", mine, state[:len(state)-4]},
		"a link that was sent to hooks": {"", mine, f.approvals.Link(open[0], "ops")},
		"other arguments":               {"", other, state},
		"another identity":              {"eve", mine, state},
	} {
		answer := f.answered(t, forged.subject, forged.args, forged.state)
		if f.deleted.Load() != 0 || answer["error"] == nil {
			t.Fatalf("%s: it ran %d times: %v", name, f.deleted.Load(), answer)
		}
		if a, err := f.approvals.Get(t.Context(), open[0].ID); err != nil || a.State != toolroom.ApprovalPending || len(a.Votes) != 0 {
			t.Fatalf("%s: the question is %+v, %v", name, a, err)
		}
	}
	if answer := f.answered(t, "", mine, state); f.deleted.Load() != 1 {
		t.Fatalf("the very call did not run: %v", answer)
	}
	if answer := f.answered(t, "", mine, state); f.deleted.Load() != 1 {
		t.Errorf("a replayed answer ran it again: %v", answer)
	}
}

func TestTheClientOfATokenAnswersOnlyWhereTheTermsSaySo(t *testing.T) {
	t.Parallel()
	for _, callerMay := range []bool{false, true} {
		f := serveWith(t, direct(t), approval.Options{Terms: func(string) toolroom.ApprovalTerms {
			if callerMay {
				return toolroom.ApprovalTerms{Approvers: []string{"caller"}}
			}
			return toolroom.ApprovalTerms{}
		}})
		if !callerMay {
			// A state that the client was never given changes nothing.
			go f.answerNext(t, toolroom.Answer{By: "ada", Comment: "no"})
			answer := f.answered(t, "ann", `{}`, "")
			if f.deleted.Load() != 0 || strings.Contains(fmt.Sprint(answer), "requestState") || !strings.Contains(fmt.Sprint(answer), "approval_declined") {
				t.Errorf("the caller was asked: %v", answer)
			}
			continue
		}
		state := askedState(t, f.answered(t, "ann", `{}`, ""))
		if answer := f.answered(t, "ann", `{}`, state); f.deleted.Load() != 1 {
			t.Errorf("the caller's answer did not count: %v", answer)
		}
	}
}
