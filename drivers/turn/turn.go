// Package turn has locks for what takes long, such as connecting to an engine or booting a
// sandbox: a caller that waits for one gives up with its context.
package turn

import "context"

// Turn is a lock. Make one with [New].
type Turn chan struct{}

// New returns a turn that nobody has.
func New() Turn { return make(Turn, 1) }

// Take waits for the turn, and returns a function that ends it.
func (t Turn) Take(ctx context.Context) (end func(), err error) {
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	select {
	case t <- struct{}{}:
		return func() { <-t }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// Once returns a function that returns the value of make. It calls make until that
// succeeds, for one caller at a time; the others wait with their own context.
func Once[T any](make func(context.Context) (T, error)) func(context.Context) (T, error) {
	turn := New()
	var made bool
	var value T
	return func(ctx context.Context) (none T, err error) {
		end, err := turn.Take(ctx)
		if err != nil {
			return none, err
		}
		defer end()
		if made {
			return value, nil
		}
		v, err := make(ctx)
		if err != nil {
			return none, err
		}
		made, value = true, v
		return v, nil
	}
}
