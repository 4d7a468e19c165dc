package api

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/toolroom/toolroom/internal/run"
	"github.com/toolroom/toolroom/internal/server/auth"
)

type runsInput struct {
	Paging
}

// maxRuns is how far back a list of runs goes.
const maxRuns = 10_000

type runsOutput struct {
	Body runList
}

type runList struct {
	Runs []Run `json:"runs"`
	// Next is the cursor of the next page; empty at the end of the list.
	Next string `json:"next,omitempty"`
}

// Run is a suspended program or a background call. Its result is at /calls/{id}.
type Run struct {
	ID      string       `json:"id"`
	Tool    string       `json:"tool"`
	State   run.JobState `json:"state" enum:"queued,running,waiting,done"`
	Subject string       `json:"subject" doc:"who made the call"`
	Session string       `json:"session,omitempty"`
	Created time.Time    `json:"created"`
	// Approvals are the ids of the approvals for which it waits.
	Approvals []string `json:"approvals,omitempty"`
}

func (s *Server) routeRuns() {
	register(s, huma.Operation{
		OperationID: "list-runs", Method: http.MethodGet, Path: "/runs", Tags: []string{"calls"},
		Summary: "List suspended programs and background calls, newest first",
	}, s.listRuns)
}

// listRuns lists the caller's runs; an operator sees all runs.
func (s *Server) listRuns(ctx context.Context, in *runsInput) (*runsOutput, error) {
	jobs := s.o.Runner.Jobs
	if jobs == nil {
		return nil, unsupported("this server does not run background calls")
	}
	owner := ""
	if who := auth.Identity(ctx); !auth.IsOperator(who) {
		owner = who.Key()
	}
	found, err := jobs.ListJobs(ctx, owner, maxRuns)
	if err != nil {
		return nil, err
	}
	list := make([]Run, len(found))
	for i, j := range found {
		list[i] = Run{
			ID: j.ID, Tool: j.Call.Tool, State: j.State, Subject: j.Identity.Key(),
			Session: j.Call.Session, Created: j.Created, Approvals: j.Approvals,
		}
	}
	list, next, err := page(list, in.Paging, func(r Run) string { return r.ID })
	return &runsOutput{Body: runList{Runs: list, Next: next}}, err
}
