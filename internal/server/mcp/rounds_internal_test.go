package mcp

import (
	"strings"
	"testing"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/run"
)

func waiting(owner, id string) *roundCall {
	return &roundCall{Suspension: run.NewSuspension(run.Client{}), id: id, owner: owner, end: func(error) {}}
}

// The bound is each caller's own: one who leaves questions open does not end the calls of
// others.
func TestTheCallsOfOneCallerThatWaitForAnswersAreBounded(t *testing.T) {
	t.Parallel()
	ds := &roundCalls{open: map[string]*roundCall{}}
	defer ds.close()
	for i := range maxRoundCalls {
		if _, err := ds.suspend(waiting("ann", string(rune('A'+i)))); err != nil {
			t.Fatal(err)
		}
	}
	_, err := ds.suspend(waiting("ann", "more"))
	if e := toolroom.AsError(err); toolroom.CodeOf(err) != toolroom.CodeResourceLimit || !strings.Contains(e.Message, "100 calls are already waiting") || e.Hint == "" {
		t.Errorf("one call more: %v", err)
	}
	if _, err := ds.suspend(waiting("ben", "more")); err != nil {
		t.Errorf("another caller: %v", err)
	}
	if _, err := ds.suspend(ds.open["A"]); err != nil {
		t.Errorf("the next question of a call that waits already: %v", err)
	}
}

func TestARoundIsAnsweredOnce(t *testing.T) {
	t.Parallel()
	ds := &roundCalls{open: map[string]*roundCall{}}
	defer ds.close()
	var causes []error
	d := waiting("ann", "a")
	d.end = func(cause error) { causes = append(causes, cause) }
	turn, err := ds.suspend(d)
	if err != nil {
		t.Fatal(err)
	}
	x := &request{}
	if got, err := ds.resume("a", turn, x); got != d || err != nil {
		t.Fatalf("the answer finds %v, %v", got, err)
	}
	if d.currentRequest() != x {
		t.Error("the call cannot notify its client when it gets the answer")
	}
	d.current.Store(nil) // as at the end of the round
	if _, err := ds.resume("a", turn, x); err == nil {
		t.Error("the round was answered twice")
	}
	ds.expire(d, turn) // whose timer had fired just before the answer
	if len(causes) > 0 {
		t.Error("a call that has its answer was ended")
	}
	if _, err := ds.suspend(d); err != nil {
		t.Fatal(err)
	}
	ds.expire(d, d.turn)
	if len(causes) != 1 {
		t.Error("a call without an answer was not ended")
	}
	if got, err := ds.resume("a", d.turn, x); got != nil || err != nil {
		t.Errorf("the call that has ended: %v, %v", got, err)
	}
}
