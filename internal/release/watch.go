package release

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"time"
)

// Watcher is the author of automatic rollbacks.
const Watcher = "toolroom"

// baseTime is how far back the calls of the version before count.
const baseTime = 7 * 24 * time.Hour

// Began returns the log entry with which an environment began to serve a version, as canary
// or to all.
func (t *Table) Began(tool, environment string, version int) (Entry, bool) {
	e, ok := t.began[tool+"\x00"+environment]
	if !ok || e.Version != version && e.Canary != version || e.Version == version && e.Previous == version {
		return Entry{}, false
	}
	return e, true
}

// Watches reports whether a call of a version in an environment may lead to a rollback.
func (s *Service) Watches(t *Table, tool, environment string, version int) (Entry, bool) {
	rules := s.Rules()
	if !rules.Automatic || environment == Test || t.sources[tool] != "" { // a source has no earlier version to run
		return Entry{}, false
	}
	e, ok := t.Began(tool, environment, version)
	if !ok || e.Action == ActionRollback || s.Now().Sub(e.Time) > rules.Watched {
		return Entry{}, false
	}
	base := e.Previous
	if e.Canary == version {
		base = e.Version
	}
	return e, base != 0 && base != version
}

// Watch compares the calls of a version that an environment began to serve with entry e to
// those of the version before, and takes it back if it is worse. It returns nil if it is
// not, or if someone else was faster. Calls is the number of calls that it has seen; judged
// is that of the time before, whose look is not made again.
func (s *Service) Watch(ctx context.Context, e Entry, judged int) (v *Verdict, calls int, err error) {
	version, base := e.Version, e.Previous
	if e.Canary != 0 {
		version, base = e.Canary, e.Version
	}
	list, err := s.Observe(ctx, e.Tool, e.Environment, version, e.Time, false)
	if err != nil {
		return nil, judged, err
	}
	// Whose arguments are refused by both versions says nothing about either: else anybody
	// could take a release back with three wrong calls.
	narrower := false
	if slices.ContainsFunc(list, isRefused) {
		if narrower, err = s.narrows(ctx, e.Tool, base, version); err != nil {
			return nil, judged, err
		}
	}
	if !narrower {
		list = slices.DeleteFunc(list, isRefused)
	}
	size, _ := lastLook(len(list))
	if last, _ := lastLook(judged); size == 0 || size == last {
		return nil, len(list), nil
	}
	v, err = s.judge(ctx, e, version, base, list, narrower)
	return v, len(list), err
}

func isRefused(o Observation) bool { return o.Refused }

// narrows reports whether a version may refuse arguments that the version before accepted. Only
// what surely accepts as much does not: the same schema in other words, or with more optional
// parameters.
func (s *Service) narrows(ctx context.Context, tool string, before, after int) (bool, error) {
	a, err := s.Pick(ctx, tool, before)
	if err != nil {
		return false, err
	}
	b, err := s.Pick(ctx, tool, after)
	if err != nil {
		return false, err
	}
	return narrower(a.Spec.InputSchema, b.Spec.InputSchema), nil
}

func narrower(before, after json.RawMessage) bool {
	x, y := tree(before), tree(after)
	dropWords(x)
	dropWords(y)
	return !reflect.DeepEqual(x, y) && !onlyGrows(x, y, true)
}

// dropWords removes from a schema what only tells people about it.
func dropWords(v any) {
	switch v := v.(type) {
	case []any:
		for _, item := range v {
			dropWords(item)
		}
	case map[string]any:
		for _, name := range []string{"title", "description", "$comment"} {
			if _, isText := v[name].(string); isText { // else it is a property of that name
				delete(v, name)
			}
		}
		for _, item := range v {
			dropWords(item)
		}
	}
}

// NextLook returns at how many calls a version is judged next, after so many.
func NextLook(calls int) int {
	size, _ := lastLook(calls)
	return max(2*size, firstLook)
}

func (s *Service) judge(ctx context.Context, e Entry, version, base int, calls []Observation, narrower bool) (*Verdict, error) {
	before, err := s.Observe(ctx, e.Tool, e.Environment, base, e.Time.Add(-baseTime), true)
	if err != nil {
		return nil, err
	}
	if !narrower {
		before = slices.DeleteFunc(before, isRefused)
	}
	rules := s.Rules()
	v := Worse(calls, before, rules.Confidence, rules.Slower)
	if v == nil {
		return nil, nil
	}
	v.Version, v.Base = version, base
	current, err := s.currentRelease(ctx, e.Tool, e.Environment)
	if err != nil {
		return nil, err
	}
	if current.Canary != e.Canary || current.Version != e.Version {
		return nil, nil // someone has changed it
	}
	next := Release{Tool: e.Tool, Environment: e.Environment, Version: base}
	reason := fmt.Sprintf("version %d is worse than version %d: %s", version, base, v)
	if e.Canary == 0 { // with a canary, the base is served already
		back, err := s.Pick(ctx, e.Tool, base)
		if err == nil {
			err = checkWithdrawn(back)
		}
		if err != nil {
			return nil, fmt.Errorf("%s; it is not taken back: %w", reason, err)
		}
	}
	moved, err := s.recordMove(ctx, current, next, Entry{Who: Watcher, Action: ActionRollback, Reason: reason, Verdict: v})
	if err != nil {
		return nil, err
	}
	if err := s.applyMoves(ctx, []Moved{moved}); err != nil {
		return nil, err
	}
	return v, nil
}
