package api_test

import (
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/run"
	"github.com/toolroom/toolroom/internal/server/api"
)

func TestACallerSeesTheirRunsAndAnOperatorAll(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	created := time.Date(2026, 11, 21, 8, 0, 0, 0, time.UTC)
	for i, owner := range []string{"alice", "bob"} {
		err := b.runner.Jobs.CreateJob(t.Context(), &run.Job{Job: toolroom.Job{
			ID: "call_" + owner, Identity: toolroom.Identity{Subject: owner}, State: toolroom.JobWaiting, Approvals: []string{"apr_" + owner},
			Call: toolroom.Call{Tool: "code:execute", Session: "work"}, Created: created.Add(time.Duration(i) * time.Hour),
		}})
		if err != nil {
			t.Fatal(err)
		}
	}
	list := func(who string) []api.Run {
		var page struct{ Runs []api.Run }
		b.as(who, http.MethodGet, "/api/v1/runs", "").into(t, &page)
		return page.Runs
	}
	alices := api.Run{
		ID: "call_alice", Tool: "code:execute", State: toolroom.JobWaiting, Subject: "alice", Session: "work", Created: created, Approvals: []string{"apr_alice"},
	}
	if diff := cmp.Diff([]api.Run{alices}, list("alice")); diff != "" {
		t.Errorf("alice (-want +got):\n%s", diff)
	}
	ids := []string{}
	for _, r := range list("olga") {
		ids = append(ids, r.ID)
	}
	if !slices.Equal(ids, []string{"call_bob", "call_alice"}) {
		t.Errorf("an operator sees %q", ids)
	}
	if r := b.as("alice", http.MethodGet, "/api/v1/runs?limit=-1", ""); r.status != 422 && r.code(t) != toolroom.CodeInvalidArguments {
		t.Errorf("limit -1: %d %s", r.status, r.body)
	}
}
