//lint:file-ignore SA1019 sampling and roots are deprecated and still served

package mcp_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/source"
)

const nameForm = `{"type":"object","properties":{"name":{"type":"string"}},"required":["name"]}`

// asks is a tool that asks twice and counts how often it runs.
func asks(runs *atomic.Int64) func(context.Context, *source.Request) (*source.Output, error) {
	return func(ctx context.Context, req *source.Request) (*source.Output, error) {
		runs.Add(1)
		first, err := source.Elicit(ctx, req.Ask, "first", "Your name?", json.RawMessage(nameForm))
		if err != nil {
			return nil, err
		}
		req.Emit(toolroom.Event{Kind: toolroom.EventProgress, Progress: &toolroom.Progress{Done: 1, Total: 2, Message: "half"}})
		second, err := source.Elicit(ctx, req.Ask, "second", "Your other name?", json.RawMessage(nameForm))
		if err != nil {
			return nil, err
		}
		return &source.Output{Content: []toolroom.Content{toolroom.TextContent(string(first.Content) + string(second.Content))}}, nil
	}
}

func TestAToolAsksItsClientAndRunsOnce(t *testing.T) {
	inEachEra(t, direct(t), func(t *testing.T, f *fixture, version string) {
		var runs atomic.Int64
		f.add("ask:it", asks(&runs))
		progress := make(chan string, 10)
		s := f.connect(version, &mcp.ClientOptions{
			ElicitationHandler: func(_ context.Context, req *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
				return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"name": req.Params.Message}}, nil
			},
			ProgressNotificationHandler: func(_ context.Context, req *mcp.ProgressNotificationClientRequest) { progress <- req.Params.Message },
		})
		params := &mcp.CallToolParams{Name: "ask__it"}
		params.SetProgressToken("p")
		r, err := s.CallTool(t.Context(), params)
		if err != nil {
			t.Fatal(err)
		}
		if got := text(r); r.IsError || got != `{"name":"Your name?"}{"name":"Your other name?"}` {
			t.Errorf("got %s", got)
		}
		if runs.Load() != 1 {
			t.Errorf("the tool ran %d times", runs.Load())
		}
		if got := <-progress; got != "half" {
			t.Errorf("progress said %q", got)
		}
	})
}

func TestAModelAndFoldersAreAskedForAsWell(t *testing.T) {
	inEachEra(t, direct(t), func(t *testing.T, f *fixture, version string) {
		f.add("ask:all", func(ctx context.Context, req *source.Request) (*source.Output, error) {
			answers, err := req.Ask.Ask(ctx, map[string]source.Question{
				"model": {Method: source.MethodSample, Params: json.RawMessage(`{"messages":[{"role":"user","content":{"type":"text","text":"hi"}}],"maxTokens":5}`)},
				"roots": {Method: source.MethodRoots, Params: json.RawMessage(`{}`)},
			})
			if err != nil {
				return nil, err
			}
			return &source.Output{Content: []toolroom.Content{toolroom.TextContent(string(answers["model"]) + string(answers["roots"]))}}, nil
		})
		client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, &mcp.ClientOptions{
			CreateMessageHandler: func(context.Context, *mcp.CreateMessageRequest) (*mcp.CreateMessageResult, error) {
				return &mcp.CreateMessageResult{Model: "m", Role: "assistant", Content: &mcp.TextContent{Text: "hello from the model"}}, nil
			},
		})
		client.AddRoots(&mcp.Root{URI: "file:///work", Name: "work"})
		s, err := client.Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: f.url}, &mcp.ClientSessionOptions{ProtocolVersion: version})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		r, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: "ask__all"})
		if err != nil || r.IsError || !strings.Contains(text(r), "hello from the model") || !strings.Contains(text(r), "file:///work") {
			t.Errorf("got %v, %v", r, err)
		}
	})
}

func TestAClientThatAnswersNothingIsToldWhatItLacks(t *testing.T) {
	inEachEra(t, direct(t), func(t *testing.T, f *fixture, version string) {
		var runs atomic.Int64
		f.add("ask:it", asks(&runs))
		r, err := f.connect(version, nil).CallTool(t.Context(), &mcp.CallToolParams{Name: "ask__it"})
		switch {
		case version == legacy && (err != nil || !r.IsError || !strings.Contains(text(r), "elicitation")):
			t.Errorf("got %v, %v", r, err)
		case version == modern && (err == nil || !strings.Contains(err.Error(), "elicitation/create")):
			t.Errorf("got %v, %v", r, err)
		}
	})
}

// round makes one call of 2026-07-28 by hand.
func (f *fixture) round(t *testing.T, subject, tool, more string) map[string]any {
	t.Helper()
	return f.post(t, subject, "tools/call", tool, `"name":"`+tool+`","arguments":{}`+more, `"elicitation":{}`)
}

// post makes one request of 2026-07-28 by hand, with members of params and of
// the client's capabilities.
func (f *fixture) post(t *testing.T, subject, method, name, params, capabilities string) map[string]any {
	t.Helper()
	body := `{"jsonrpc":"2.0","id":1,"method":"` + method + `","params":{` + params + `,
		"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{` + capabilities + `}}}}`
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, f.url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for name, v := range map[string]string{
		"Content-Type": "application/json", "Accept": "application/json, text/event-stream", subjectHeader: subject,
		"MCP-Protocol-Version": modern, "Mcp-Method": method, "Mcp-Name": name,
	} {
		req.Header.Set(name, v)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, _ := io.ReadAll(resp.Body)
	answer := string(raw)
	if at := strings.LastIndex(answer, "data: "); at >= 0 {
		answer = answer[at+len("data: "):]
	}
	var message map[string]any
	if err := json.Unmarshal([]byte(answer), &message); err != nil {
		t.Fatalf("%s: %v", raw, err)
	}
	return message
}

func stateOf(t *testing.T, message map[string]any) string {
	t.Helper()
	result, _ := message["result"].(map[string]any)
	state, _ := result["requestState"].(string)
	if result["resultType"] != "input_required" || state == "" {
		t.Fatalf("nothing is asked: %v", message)
	}
	return state
}

func with(state, key, content string) string {
	return `,"requestState":"` + state + `","inputResponses":{"` + key + `":{"action":"accept","content":` + content + `}}`
}

func TestTheStateOfACallIsGoodForOneCallerOneRequestAndOneRound(t *testing.T) {
	t.Parallel()
	f := serve(t, direct(t))
	var runs atomic.Int64
	f.add("ask:it", asks(&runs))
	f.add("ask:other", asks(&runs))
	first := stateOf(t, f.round(t, "ada", "ask__it", ""))
	for name, try := range map[string]func() map[string]any{
		"another caller":  func() map[string]any { return f.round(t, "eve", "ask__it", with(first, "first", `{"name":"x"}`)) },
		"another request": func() map[string]any { return f.round(t, "ada", "ask__other", with(first, "first", `{"name":"x"}`)) },
		"a changed state": func() map[string]any { return f.round(t, "ada", "ask__it", with(first+"A", "first", `{"name":"x"}`)) },
		"no state of ours": func() map[string]any {
			return f.round(t, "ada", "ask__it", with("eyJkIjoieCJ9", "first", `{"name":"x"}`))
		},
	} {
		if m := try(); m["error"] == nil {
			t.Errorf("%s: %v", name, m)
		}
	}
	// An answer that does not fit is asked for again.
	again := stateOf(t, f.round(t, "ada", "ask__it", with(first, "first", `{"name":5}`)))
	second := stateOf(t, f.round(t, "ada", "ask__it", with(again, "first", `{"name":"ada"}`)))
	if m := f.round(t, "ada", "ask__it", with(again, "first", `{"name":"ada"}`)); m["error"] == nil {
		t.Errorf("a round was answered twice: %v", m)
	}
	done := f.round(t, "ada", "ask__it", with(second, "second", `{"name":"lovelace"}`))
	if result, _ := done["result"].(map[string]any); result["resultType"] != "complete" {
		t.Errorf("the end is %v", done)
	}
	if m := f.round(t, "ada", "ask__it", with(second, "second", `{"name":"lovelace"}`)); m["error"] == nil {
		t.Errorf("a call that has ended was answered: %v", m)
	}
	if runs.Load() != 1 {
		t.Errorf("the tools ran %d times", runs.Load())
	}
}

func TestAClosedServerEndsTheCallsThatWaitForAnswers(t *testing.T) {
	t.Parallel()
	f := serve(t, direct(t))
	ended := make(chan error, 1)
	f.add("ask:it", func(ctx context.Context, req *source.Request) (*source.Output, error) {
		_, err := source.Elicit(ctx, req.Ask, "first", "Your name?", json.RawMessage(nameForm))
		ended <- err
		return nil, err
	})
	stateOf(t, f.round(t, "ada", "ask__it", ""))
	f.server.Close()
	select {
	case err := <-ended:
		if err == nil {
			t.Error("a call without an answer goes on")
		}
	case <-time.After(20 * time.Second):
		t.Error("the call still waits")
	}
}

func TestNobodyApprovesBeforeTheyAreAsked(t *testing.T) {
	t.Parallel()
	f := serve(t, direct(t))
	answered := `,"inputResponses":{"approval":{"action":"accept","content":{"approve":true}}}`
	state := stateOf(t, f.round(t, "ada", "file__delete", answered))
	if f.deleted.Load() != 0 {
		t.Fatal("it ran")
	}
	f.round(t, "ada", "file__delete", with(state, "approval", `{"approve":true}`))
	if f.deleted.Load() != 1 {
		t.Errorf("it ran %d times", f.deleted.Load())
	}
}

func TestAnApprovalFromElsewhereLetsAWaitingCallGoOn(t *testing.T) {
	t.Parallel()
	f := serve(t, direct(t))
	state := stateOf(t, f.round(t, "ada", "file__delete", ""))
	open, err := f.approvals.List(t.Context(), toolroom.ApprovalPending)
	if err != nil || len(open) != 1 {
		t.Fatalf("%v, %v", open, err)
	}
	if _, err := f.approvals.Answer(t.Context(), open[0].ID, toolroom.Answer{Approve: true, By: "boss"}); err != nil {
		t.Fatal(err)
	}
	for f.deleted.Load() == 0 && t.Context().Err() == nil {
		time.Sleep(5 * time.Millisecond)
	}
	// The client comes back with what its user said, and gets the result.
	m := f.round(t, "ada", "file__delete", with(state, "approval", `{"approve":false}`))
	if result, _ := m["result"].(map[string]any); result["resultType"] != "complete" || result["isError"] == true {
		t.Errorf("got %v", m)
	}
	if f.deleted.Load() != 1 {
		t.Errorf("it ran %d times", f.deleted.Load())
	}
}
