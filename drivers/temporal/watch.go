package temporal

import (
	"context"
	"sync"
	"time"

	"go.temporal.io/sdk/client"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/deadline"
)

type pauseKey struct{}

// WithPause returns a context in which pause is called instead of [deadline.Pause] when a
// workflow begins to wait for a person, because the deadline is in another process. resume is
// called when the wait is over.
func WithPause(ctx context.Context, pause func() (resume func())) context.Context {
	return context.WithValue(ctx, pauseKey{}, pause)
}

func pauseDeadlines(ctx context.Context) (resume func()) {
	if remote, ok := ctx.Value(pauseKey{}).(func() func()); ok {
		return remote()
	}
	return deadline.Pause(ctx)
}

// watchInterval is the interval at which a workflow is queried for its pending approvals.
const watchInterval = time.Second

// watchApprovals emits an event for each approval for which a workflow waits, and pauses the
// deadlines of ctx while there is one. stop ends it.
func (t *Temporal) watchApprovals(ctx context.Context, c client.Client, workflow, run string, emit func(toolroom.Event)) (stop func()) {
	watching, cancel := context.WithCancel(ctx)
	var done sync.WaitGroup
	done.Go(func() {
		emitted := map[string]bool{}
		resume := func() {}
		defer func() { resume() }()
		tick := time.NewTicker(watchInterval)
		defer tick.Stop()
		for paused := false; ; {
			select {
			case <-watching.Done():
				return
			case <-tick.C:
			}
			value, err := c.QueryWorkflow(watching, workflow, run, approvalsQuery)
			if err != nil {
				continue // the workflow waits for a worker, which would answer the query
			}
			var n message[map[string]toolroom.ApprovalNotice]
			if value.Get(&n) != nil {
				continue
			}
			waits, err := n.read(run, approvalsPlace)
			if err != nil {
				continue
			}
			for id, notice := range waits {
				if !emitted[id] && emit != nil {
					emit(toolroom.Event{Kind: toolroom.EventApproval, Approval: &notice})
				}
				emitted[id] = true
			}
			if waiting := len(waits) > 0; waiting != paused {
				resume()
				resume = func() {}
				if waiting {
					resume = pauseDeadlines(ctx)
				}
				paused = waiting
			}
		}
	})
	return func() { cancel(); done.Wait() }
}
