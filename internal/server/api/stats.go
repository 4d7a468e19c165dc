package api

import (
	"cmp"
	"context"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/receipt"
)

type statsInput struct {
	CallFilter
	By string `query:"by" enum:"tool,version,environment,caller,via" doc:"what to group the calls by"`
}

type seriesInput struct {
	CallFilter
	Step string `query:"step" doc:"length of a step, such as 1m (default: so that there are at most 180)"`
}

// Overview is the state of all calls of a time.
type Overview struct {
	*receipt.Stats
	// Queued, Running and Waiting are the calls that have not ended, by state.
	Queued  int `json:"queued"`
	Running int `json:"running"`
	Waiting int `json:"waiting"`
}

// defaultStats is the period that statistics cover by default.
const defaultStats = 24 * time.Hour

func (s *Server) overview(ctx context.Context, in *statsInput) (*jsonOutput[*Overview], error) {
	stats, err := s.stats(ctx, &in.CallFilter, in.By, 0)
	if err != nil {
		return nil, err
	}
	out := &Overview{Stats: stats}
	runs, err := s.runs(ctx)
	if err != nil {
		return nil, err
	}
	for _, one := range runs {
		switch one.State {
		case toolroom.JobQueued:
			out.Queued++
		case toolroom.JobRunning:
			out.Running++
		case toolroom.JobWaiting:
			out.Waiting++
		}
	}
	return &jsonOutput[*Overview]{out}, nil
}

func (s *Server) series(ctx context.Context, in *seriesInput) (*jsonOutput[*receipt.Stats], error) {
	step, err := time.ParseDuration(cmp.Or(in.Step, "0s"))
	if err != nil {
		return nil, toolroom.Errorf(toolroom.CodeInvalidArguments, "step %q is not a duration", in.Step).WithHint("for example 1m")
	}
	if step == 0 {
		since := cmp.Or(in.Since, time.Now().Add(-defaultStats))
		step = receipt.StepFor(cmp.Or(in.Until, time.Now()).Sub(since))
	}
	stats, err := s.stats(ctx, &in.CallFilter, "", step)
	return &jsonOutput[*receipt.Stats]{stats}, err
}

func (s *Server) stats(ctx context.Context, in *CallFilter, by string, step time.Duration) (*receipt.Stats, error) {
	if s.o.Receipts == nil {
		return nil, unsupportedError("this server does not keep receipts")
	}
	now := time.Now()
	in.Since = cmp.Or(in.Since, now.Add(-defaultStats))
	q, err := in.query(ctx)
	if err != nil {
		return nil, err
	}
	return receipt.StatsOf(ctx, s.o.Receipts, receipt.StatsQuery{ReceiptQuery: q, By: by, Step: step}, now)
}
