package run

import (
	"context"
	"iter"
	"sync"

	"github.com/toolroom/toolroom"
)

// Stream runs one call and yields its events as they come: first called, then the events of
// the tool, then exactly one done or error with the result. The tool waits while the
// consumer is busy. Leaving the loop early cancels the call.
func (r *Runner) Stream(ctx context.Context, call toolroom.Call) iter.Seq[toolroom.Event] {
	return func(yield func(toolroom.Event) bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		events := make(chan toolroom.Event)
		gone := make(chan struct{})  // closed when the consumer has left
		ended := make(chan struct{}) // closed when the call has ended; a late event of its tool is dropped
		go func() {
			defer close(ended)
			r.Run(WithSink(ctx, func(e toolroom.Event) {
				select {
				case events <- e:
				case <-gone:
				case <-ended:
				}
			}), call)
		}()
		defer func() {
			close(gone)
			cancel()
			<-ended // wait until the work has ended
		}()
		for {
			select {
			case e := <-events:
				if !yield(e) {
					return
				}
			case <-ended:
				return
			}
		}
	}
}

// DefaultParallel is how many calls of a batch run at once.
const DefaultParallel = 10

// Batch runs calls in parallel, at most parallel at once (zero means DefaultParallel), and
// returns their results in the order of the calls. A failure does not stop the other calls.
// If a budget has fewer calls left than the calls that share it, none of these runs.
func (r *Runner) Batch(ctx context.Context, calls []toolroom.Call, parallel int) []*toolroom.Result {
	share := map[*toolroom.Budget]int{}
	for _, call := range calls {
		share[call.Budget]++
	}
	inside := scopeOf(ctx).runner != nil // then all share the budget of the call around them
	if inside {
		share = map[*toolroom.Budget]int{nil: len(calls)}
	}
	counted := map[*toolroom.Budget]context.Context{}
	for budget, n := range share {
		within, all := r.reserve(ctx, budget, n)
		defer all.release()
		counted[budget] = within
	}
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
			within := counted[call.Budget]
			if inside {
				within = counted[nil]
			}
			results[i] = r.Run(within, call)
		})
	}
	wg.Wait()
	return results
}
