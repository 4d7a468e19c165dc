package temporal

import (
	"context"
	"sync"
	"time"

	"go.temporal.io/sdk/client"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/patience"
)

// watchEvery is how often a workflow is asked what it waits for.
const watchEvery = time.Second

// watch tells emit what questions to people a workflow waits for, and stops the
// clocks around ctx meanwhile. stop ends it.
func (t *Temporal) watch(ctx context.Context, c client.Client, workflow string, emit func(toolroom.Event)) (stop func()) {
	watching, cancel := context.WithCancel(ctx)
	var done sync.WaitGroup
	done.Go(func() {
		told := map[string]bool{}
		resume := func() {}
		defer func() { resume() }()
		tick := time.NewTicker(watchEvery)
		defer tick.Stop()
		for holding := false; ; {
			select {
			case <-watching.Done():
				return
			case <-tick.C:
			}
			value, err := c.QueryWorkflow(watching, workflow, "", waitsQuery)
			if err != nil {
				continue // no worker is there to answer; the workflow waits for one
			}
			var waits map[string]toolroom.ApprovalNotice
			if value.Get(&waits) != nil {
				continue
			}
			for id, notice := range waits {
				if !told[id] && emit != nil {
					emit(toolroom.Event{Kind: toolroom.EventApproval, Approval: &notice})
				}
				told[id] = true
			}
			if waiting := len(waits) > 0; waiting != holding {
				resume()
				resume = func() {}
				if waiting {
					resume = patience.Hold(ctx)
				}
				holding = waiting
			}
		}
	})
	return func() { cancel(); done.Wait() }
}
