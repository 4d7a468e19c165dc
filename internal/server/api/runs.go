package api

import (
	"context"
	"slices"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/server/auth"
)

type runsInput struct {
	State toolroom.JobState `query:"state" enum:"queued,running,waiting,done" doc:"only runs in this state"`
	Tool  string            `query:"tool" doc:"only calls of this tool, by its canonical id"`
	Paging
}

type runList struct {
	Runs []Run `json:"runs"`
	// Next is the cursor of the next page; empty at the end of the list.
	Next string `json:"next,omitempty"`
}

// Run is a call that runs on this server, a suspended program or a background call. The
// result is at /calls/{id}.
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

// listRuns lists the caller's runs; an operator sees all runs.
func (s *Server) listRuns(ctx context.Context, in *runsInput) (*jsonOutput[runList], error) {
	all, err := s.runs(ctx)
	if err != nil {
		return nil, err
	}
	list := []Run{}
	for _, one := range all {
		if (in.State == "" || one.State == in.State) && (in.Tool == "" || one.Tool == in.Tool) {
			list = append(list, one)
		}
	}
	list, next, err := Page(list, in.Paging, func(r Run) string { return r.ID })
	return &jsonOutput[runList]{runList{Runs: list, Next: next}}, err
}

// maxRuns is how many background calls a list considers.
const maxRuns = 1000

// runs returns the runs that the caller may see, newest first.
func (s *Server) runs(ctx context.Context) ([]Run, error) {
	owner := ""
	if who := auth.Identity(ctx); !auth.IsOperator(who) {
		owner = who.Key()
	}
	var list []Run
	known := map[string]bool{}
	if jobs := s.o.Runner.Jobs; jobs != nil {
		found, err := jobs.ListJobs(ctx, owner, maxRuns)
		if err != nil {
			return nil, err
		}
		for _, j := range found {
			known[j.ID] = true
			if !canRead(ctx, j.Identity) {
				continue
			}
			list = append(list, Run{
				ID: j.ID, Tool: j.Call.Tool, State: j.State, Subject: j.Identity.Key(),
				Session: j.Call.Session, Created: j.Created, Approvals: j.Approvals,
			})
		}
	}
	for _, one := range s.o.Metrics.Running(func(maker toolroom.Identity) bool { return canRead(ctx, maker) }) {
		if !known[one.ID] {
			list = append(list, one)
		}
	}
	slices.SortStableFunc(list, func(a, b Run) int { return b.Created.Compare(a.Created) })
	return list, nil
}
