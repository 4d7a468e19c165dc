// Package journal remembers what a program was answered, so that the program can
// begin anew, on another engine or in another process, without anything being
// done twice.
package journal

import (
	"context"
	"encoding/json"
	"sync"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/bridge"
)

// Head is what a program needs to begin anew exactly as it began.
type Head struct {
	Engine string `json:"engine"`
	// Tools and Withheld are the names that the program has.
	Tools    []bridge.Tool     `json:"tools,omitempty"`
	Withheld map[string]string `json:"withheld,omitempty"`
	// State is the SHA-256, in hex, of its session's state, empty without one.
	State string `json:"state,omitempty"`
	// Seed is what random numbers begin with.
	Seed []byte `json:"seed"`
}

// Entry is one thing that a program asked for.
type Entry struct {
	// Tool and Hash say what: hash is the SHA-256, in hex, of the arguments.
	Tool string `json:"tool"`
	Hash string `json:"hash"`
	// Shown is the call as the program's result lists it; nil where it lists
	// none.
	Shown *toolroom.ExecutionCall `json:"shown,omitempty"`
	// Approval is the question that the call waits for, or waited for.
	Approval string `json:"approval,omitempty"`
	// Unbegun says that a call without a result did nothing.
	Unbegun bool `json:"unbegun,omitempty"`
	// Result is the answer; nil when there was none yet.
	Result *toolroom.Result `json:"result,omitempty"`
}

// Store keeps journals by the id of the call that runs the program, until the
// job of that call has its result. Its methods are safe for concurrent use.
type Store interface {
	// KeepJournal stores a journal in place of the one that is there.
	KeepJournal(ctx context.Context, call string, head *Head, entries []Entry) error
	// KeepEntry stores one entry of a journal in its place, from 0.
	KeepEntry(ctx context.Context, call string, place int, e Entry) error
	// Journal is one by its call, or an error with code not_found.
	Journal(ctx context.Context, call string) (*Head, []Entry, error)
}

// Journal is that of one run. The zero value is one that begins. Its methods are
// safe for concurrent use.
type Journal struct {
	mu      sync.Mutex
	entries []Entry
	replay  []int         // places that the program has not asked for again
	left    int           // of these, how many have an answer
	drained chan struct{} // closed when left is 0
	keep    func(place int, e Entry) error
}

// Resume makes a journal of what was stored.
func Resume(entries []Entry) *Journal {
	j := &Journal{entries: entries}
	j.Rewind()
	return j
}

// Rewind makes all answers so far those to be given again.
func (j *Journal) Rewind() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.replay, j.left = j.replay[:0], 0
	for place, e := range j.entries {
		j.replay = append(j.replay, place)
		if e.Result != nil {
			j.left++
		}
	}
	j.drained = make(chan struct{})
	if j.left == 0 {
		close(j.drained)
	}
}

// Keep gives all entries to all, and every further one, or change of one, to
// each.
func (j *Journal) Keep(all func([]Entry) error, each func(place int, e Entry) error) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if err := all(j.entries); err != nil {
		return err
	}
	j.keep = each
	return nil
}

// Ask takes down that a program asks for something, before it gets it. An entry
// with a result is the answer of the first time. One without is to be done:
// again, where it stands for something that was under way when the program was
// cut off, which it then says; such an entry is given when all answers are. A
// program that asks for something new while answers are left has taken another
// way: that is a [*Divergence].
func (j *Journal) Ask(ctx context.Context, e Entry) (place int, found Entry, again bool, err error) {
	j.mu.Lock()
	for at, place := range j.replay {
		found := j.entries[place]
		if found.Tool != e.Tool || found.Hash != e.Hash {
			continue
		}
		j.replay = append(j.replay[:at], j.replay[at+1:]...)
		if found.Result == nil {
			drained := j.drained
			j.mu.Unlock()
			select {
			case <-drained:
				return place, found, true, nil
			case <-ctx.Done():
				return place, found, true, ctx.Err()
			}
		}
		if j.left--; j.left == 0 {
			close(j.drained)
		}
		j.mu.Unlock()
		return place, found, false, nil
	}
	defer j.mu.Unlock()
	if j.left > 0 {
		d := &Divergence{Asked: e.Tool}
		for _, place := range j.replay {
			if j.entries[place].Result != nil {
				d.Expected = j.entries[place].Tool
				break
			}
		}
		return 0, e, false, d
	}
	j.entries = append(j.entries, e)
	place = len(j.entries) - 1
	if j.keep != nil {
		err = j.keep(place, e)
	}
	return place, e, false, err
}

// Note changes an entry.
func (j *Journal) Note(place int, change func(*Entry)) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	change(&j.entries[place])
	if j.keep == nil {
		return nil
	}
	return j.keep(place, j.entries[place])
}

// Left reports whether answers are left that the program has not asked for again.
func (j *Journal) Left() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.left > 0
}

// Calls are the calls of the program, in the order in which they began.
func (j *Journal) Calls() []toolroom.ExecutionCall {
	j.mu.Lock()
	defer j.mu.Unlock()
	calls := []toolroom.ExecutionCall{}
	for _, e := range j.entries {
		if e.Shown != nil {
			calls = append(calls, *e.Shown)
		}
	}
	return calls
}

// Divergence is the error of a program that did not go the same way again.
type Divergence struct {
	// Asked is what it called, Expected what it called at this place before.
	Asked, Expected string
}

func (d *Divergence) Error() string {
	return "the program was begun anew and took another way: it called " + d.Asked + ", where it had called " + d.Expected
}

// Result is an answer as a result, for what is no call of a tool.
func Result(value json.RawMessage, err error) *toolroom.Result {
	return &toolroom.Result{Value: value, Error: toolroom.AsError(err)}
}
