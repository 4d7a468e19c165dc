package api

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/server/auth"
)

type runsInput struct {
	Limit int `query:"limit" minimum:"1" maximum:"500" default:"50" doc:"maximum number of runs"`
}

type runsOutput struct {
	Body runList
}

type runList struct {
	Runs []Run `json:"runs"`
}

// Run is a suspended program or a background call. Its result is at /calls/{id}.
type Run struct {
	ID      string            `json:"id"`
	Tool    string            `json:"tool"`
	State   toolroom.JobState `json:"state" enum:"queued,running,waiting,done"`
	Subject string            `json:"subject" doc:"who made the call"`
	Session string            `json:"session,omitempty"`
	Created time.Time         `json:"created"`
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
	found, err := jobs.ListJobs(ctx, owner, in.Limit)
	list := make([]Run, len(found))
	for i, j := range found {
		list[i] = Run{
			ID: j.ID, Tool: j.Call.Tool, State: j.State, Subject: j.Identity.Key(),
			Session: j.Call.Session, Created: j.Created, Approvals: j.Approvals,
		}
	}
	return &runsOutput{Body: runList{Runs: list}}, err
}
