package api_test

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/run"
	"github.com/toolroom/toolroom/source"
)

// nextApproval reads the next event of a stream of approvals.
func nextApproval(t *testing.T, lines *bufio.Scanner) (state string, a toolroom.Approval) {
	t.Helper()
	for lines.Scan() {
		if name, ok := strings.CutPrefix(lines.Text(), "event: "); ok {
			state = name
		}
		if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
			if err := json.Unmarshal([]byte(data), &a); err != nil {
				t.Fatal(err)
			}
			return state, a
		}
	}
	t.Fatal("the stream ended")
	return "", a
}

func TestApprovalsAreFollowedByWhoMaySeeThem(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.add("do:risky", nothing)
	ask := func(who string) string {
		t.Helper()
		var result toolroom.Result
		b.as(who, http.MethodPost, "/api/v1/tools/do:risky/call", `{"no_wait": true}`).into(t, &result)
		return result.Error.Approval
	}
	early := ask("alice")
	follow := func(who string) *bufio.Scanner {
		return bufio.NewScanner(b.open(t.Context(), who, http.MethodGet, "/api/v1/approvals/events", "").Body)
	}
	carol, bob := follow("carol"), follow("bob")
	if state, a := nextApproval(t, carol); state != "pending" || a.ID != early {
		t.Errorf("what was pending: %s %s", state, a.ID)
	}
	own := ask("bob")
	// Bob sees his own, and nothing of Alice's before it.
	if state, a := nextApproval(t, bob); state != "pending" || a.ID != own {
		t.Errorf("bob sees %s %s", state, a.ID)
	}
	if state, a := nextApproval(t, carol); state != "pending" || a.ID != own {
		t.Errorf("what came: %s %s", state, a.ID)
	}
	b.as("carol", http.MethodPost, "/api/v1/approvals/"+own, `{"approve": false, "comment": "no"}`)
	for name, lines := range map[string]*bufio.Scanner{"carol": carol, "bob": bob} {
		if state, a := nextApproval(t, lines); state != "declined" || a.ID != own || a.Comment != "no" {
			t.Errorf("%s: the answer: %s %+v", name, state, a)
		}
	}
}

func TestAQueuedJobIsCancelledBeforeItBegins(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	started := make(chan struct{}, run.DefaultParallel+1)
	b.add("hang:on", func(ctx context.Context, _ *source.Request) (*source.Output, error) {
		started <- struct{}{}
		<-ctx.Done()
		return nil, ctx.Err()
	})
	var locations []string
	for range run.DefaultParallel + 1 {
		locations = append(locations, b.post("/tools/hang:on/call?async=true", `{}`).header.Get("Location"))
	}
	for range run.DefaultParallel {
		<-started
	}
	queued := ""
	for _, l := range locations {
		var record struct{ State toolroom.JobState }
		b.as("", http.MethodGet, l, "").into(t, &record)
		if record.State == toolroom.JobQueued {
			queued = l
		}
	}
	if r := b.as("", http.MethodPost, queued+"/cancel", ""); r.status != http.StatusAccepted {
		t.Fatalf("%s: %d %s", queued, r.status, r.body)
	}
	var record struct {
		State   toolroom.JobState
		Result  *toolroom.Result
		Receipt *struct{ Status toolroom.Status }
	}
	b.as("", http.MethodGet, queued, "").into(t, &record)
	if record.State != toolroom.JobDone || record.Result.Status != toolroom.StatusCancelled || record.Receipt == nil || record.Receipt.Status != toolroom.StatusCancelled {
		t.Errorf("it is %+v", record)
	}
	if r := b.as("", http.MethodPost, queued+"/cancel", ""); r.status != http.StatusConflict {
		t.Errorf("again: %d", r.status)
	}
	for _, l := range locations {
		b.as("", http.MethodPost, l+"/cancel", "")
	}
	if len(started) != 0 {
		t.Error("the cancelled job ran")
	}
}
