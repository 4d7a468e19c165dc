package mcp_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/toolroom/toolroom"
	mcpserver "github.com/toolroom/toolroom/internal/server/mcp"
)

// ticks is a user who is asked in the client and answers.
func ticks(asked *int, approve bool) *mcp.ClientOptions {
	return &mcp.ClientOptions{ElicitationHandler: func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
		*asked++
		return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"approve": approve}}, nil
	}}
}

// A client of the old era has a session, over which the server asks.
func TestAnOldClientApprovesByElicitation(t *testing.T) {
	t.Parallel()
	for _, version := range []string{"2025-06-18", "2025-11-25"} {
		f := serve(t, direct(t))
		asked := 0
		call := &mcp.CallToolParams{Name: "file__delete", Arguments: map[string]any{"path": "a"}}
		r, err := f.connect(version, ticks(&asked, true)).CallTool(t.Context(), call)
		if err != nil || r.IsError || asked != 1 || f.deleted.Load() != 1 {
			t.Fatalf("%s: asked %d times, ran %d times: %v, %v", version, asked, f.deleted.Load(), r, err)
		}
		r, err = f.connect(version, ticks(&asked, false)).CallTool(t.Context(), call)
		if err != nil || !r.IsError || !strings.Contains(text(r), "declined") || asked != 2 || f.deleted.Load() != 1 {
			t.Errorf("%s: a no gave %v, %v after %d questions", version, r, err, asked)
		}
	}
}

// A client of 2026-07-28 has no session: it is told what to ask in a result, and
// answers in a request of its own, which may reach another server of the room.
func TestAStatelessClientApprovesInItsNextRequestWhicheverServerGetsIt(t *testing.T) {
	t.Parallel()
	key := []byte(strings.Repeat("k", mcpserver.StateKeySize))
	f := serve(t, direct(t))
	server := func() *fixture {
		s, err := mcpserver.New(mcpserver.Options{Runner: f.runner, Approvals: f.approvals, Library: f.library, Expose: direct(t), Version: "test", Identity: identity, StateKey: key})
		if err != nil {
			t.Fatal(err)
		}
		h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			who := toolroom.Identity{Subject: r.Header.Get(subjectHeader)}
			s.HTTP().ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), identityKey{}, who)))
		}))
		t.Cleanup(func() { h.Close(); s.Close() })
		return &fixture{t: t, url: h.URL}
	}
	one, two := server(), server()
	const args = `{"path":"a"}`
	state := askedState(t, one.answered(t, "ada", args, ""))
	if answer := two.answered(t, "eve", args, state); answer["error"] == nil || f.deleted.Load() != 0 {
		t.Fatalf("the state of another passed: %v", answer)
	}
	// The server that asked still waits for the answer. Whichever runs the call, it runs once, and
	// the client is not asked again.
	answer := two.answered(t, "ada", args, state)
	if result, _ := answer["result"].(map[string]any); result["requestState"] != nil {
		t.Fatalf("the other server did not take the answer: %v", answer)
	}
	for end := time.Now().Add(time.Minute); f.deleted.Load() == 0 && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
	for _, again := range []*fixture{two, one} {
		if answer := again.answered(t, "ada", args, state); f.deleted.Load() != 1 {
			t.Errorf("a replayed answer ran it again: %v", answer)
		}
	}
	if left, err := f.approvals.List(t.Context(), toolroom.ApprovalApproved); err != nil || len(left) != 1 || left[0].Used.IsZero() {
		t.Errorf("the approvals are %+v, %v", left, err)
	}
}
