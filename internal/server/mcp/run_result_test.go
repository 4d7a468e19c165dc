package mcp_test

import (
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/toolroom/toolroom"
	mcpserver "github.com/toolroom/toolroom/internal/server/mcp"
)

func TestTheResultOfARunIsReadByItsIdByItsOwnerAlone(t *testing.T) {
	inEachEra(t, mcpserver.Exposure{Search: true}, func(t *testing.T, f *fixture, version string) {
		job, err := f.runner.Submit(t.Context(), toolroom.Call{Tool: "file:delete", Arguments: []byte(`{}`)})
		if err != nil {
			t.Fatal(err)
		}
		s := f.connect(version, nil)
		read := func(more map[string]any) *mcp.CallToolResult {
			t.Helper()
			args := map[string]any{"handle": job.ID}
			for k, v := range more {
				args[k] = v
			}
			r, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: "read_result", Arguments: args})
			if err != nil {
				t.Fatal(err)
			}
			return r
		}
		until := func(want string) string {
			t.Helper()
			for {
				got := text(read(nil))
				if strings.Contains(got, want) {
					return got
				}
				select {
				case <-time.After(10 * time.Millisecond):
				case <-t.Context().Done():
					t.Fatalf("the run reads as %s, never as %s", got, want)
				}
			}
		}
		until(`"approvals":["`)
		asked, err := f.approvals.List(t.Context(), toolroom.ApprovalPending)
		if err != nil || len(asked) != 1 {
			t.Fatalf("%d approvals are open, %v", len(asked), err)
		}
		if got := text(read(nil)); !strings.Contains(got, job.ID) || !strings.Contains(got, asked[0].ID) {
			t.Errorf("a run that waits reads as %s", got)
		}
		if _, err := f.approvals.Answer(t.Context(), asked[0].ID, toolroom.Answer{Approve: true, By: "ada"}); err != nil {
			t.Fatal(err)
		}
		if got := until("deleted"); got != `"deleted"` && got != "deleted" {
			t.Errorf("a run that is done reads as %s, not as the answer of its call", got)
		}
		if r := read(map[string]any{"offset": 1}); !r.IsError || !strings.HasPrefix(text(r), "invalid_arguments:") {
			t.Errorf("a page of a run: %s", text(r))
		}
		m := f.post(t, "eve", "tools/call", "read_result", `"name":"read_result","arguments":{"handle":"`+job.ID+`"}`, "")
		if result, _ := m["result"].(map[string]any); result["isError"] != true {
			t.Errorf("somebody else's run gave %v", m)
		}
	})
}
