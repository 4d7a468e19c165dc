package release

import (
	"context"
	"fmt"
	"sync"

	"github.com/toolroom/toolroom"
)

// parallelCases is how many cases run at a time.
const parallelCases = 8

// SurfaceTest is the surface of calls that try versions.
const SurfaceTest = "test"

// AddCase stores a case after checking it.
func (s *Service) AddCase(ctx context.Context, c *Case) error {
	if err := c.prepare(); err != nil {
		return err
	}
	if c.Created.IsZero() {
		c.Created = s.Now().UTC()
	}
	return s.Store.PutCase(ctx, c)
}

// Try runs one call of a version, released or not: of the newest if number is zero.
func (s *Service) Try(ctx context.Context, tool string, number int, call toolroom.Call) *toolroom.Result {
	call.Tool, call.Environment, call.Surface = tool, Draft, SurfaceTest
	if number > 0 {
		call.Tool = fmt.Sprintf("%s@%d", tool, number)
	}
	return s.Run(ctx, call)
}

// TestCases runs all cases of a tool on a version.
func (s *Service) TestCases(ctx context.Context, v *Version) ([]Outcome, error) {
	cases, err := s.Store.Cases(ctx, v.Tool)
	if err != nil {
		return nil, err
	}
	out := make([]Outcome, len(cases))
	slots := make(chan struct{}, parallelCases)
	var wg sync.WaitGroup
	for i, c := range cases {
		wg.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			began := s.Now()
			within := ctx
			if len(c.Fakes) > 0 {
				within = s.Fake(ctx, c.fakeAnswers())
			}
			r := s.Try(within, v.Tool, v.Number, toolroom.Call{Arguments: c.Arguments, MaxOutput: -1})
			problem := c.judge(r)
			out[i] = Outcome{Tool: v.Tool, Case: c.Name, Version: v.Number, OK: problem == "", Problem: problem, Call: r.Call, Took: s.Now().Sub(began)}
		})
	}
	wg.Wait()
	return out, ctx.Err()
}
