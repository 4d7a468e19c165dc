package run

import (
	"context"
	"iter"
	"sync"

	"github.com/toolroom/toolroom"
)

// Stream runs one call and yields its events as they come: called first, then
// what the tool sends, then exactly one done or error with the result. The tool
// waits while the consumer is busy. Leaving the loop early cancels the call.
func (r *Runner) Stream(ctx context.Context, call toolroom.Call) iter.Seq[toolroom.Event] {
	return func(yield func(toolroom.Event) bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		events := make(chan toolroom.Event)
		gone := make(chan struct{}) // the consumer has left
		go func() {
			defer close(events)
			r.Run(WithSink(ctx, func(e toolroom.Event) {
				select {
				case events <- e:
				case <-gone:
				}
			}), call)
		}()
		defer func() {
			close(gone)
			cancel()
			for range events { // wait until the work has ended
			}
		}()
		for e := range events {
			if !yield(e) {
				return
			}
		}
	}
}

// DefaultParallel is how many calls of a batch run at once.
const DefaultParallel = 10

// Batch runs calls in parallel, at most parallel at once (zero:
// DefaultParallel), and returns their results in the order of the calls. One
// failing does not stop the others.
func (r *Runner) Batch(ctx context.Context, calls []toolroom.Call, parallel int) []*toolroom.Result {
	if parallel <= 0 {
		parallel = DefaultParallel
	}
	results := make([]*toolroom.Result, len(calls))
	slots := make(chan struct{}, parallel)
	var wg sync.WaitGroup
	for i, call := range calls {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			results[i] = r.Run(ctx, call)
		})
	}
	wg.Wait()
	return results
}
