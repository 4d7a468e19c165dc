package session

import (
	"context"
	"encoding/json"
	"sync"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/bridge"
	"github.com/toolroom/toolroom/internal/taint"
)

// JournalHead is the state that a program needs to be restarted identically.
type JournalHead struct {
	Engine string `json:"engine"`
	// Tools and Withheld are the names that the program can use.
	Tools    []bridge.Tool     `json:"tools,omitempty"`
	Withheld map[string]string `json:"withheld,omitempty"`
	// State is the SHA-256, in hex, of its session's state; empty if it has none.
	State string `json:"state,omitempty"`
	// Seed is the seed of random numbers.
	Seed []byte `json:"seed"`
}

// JournalEntry is one request of a program.
type JournalEntry struct {
	// Tool and Hash identify the request: Hash is the SHA-256, in hex, of the arguments.
	Tool string `json:"tool"`
	Hash string `json:"hash"`
	// Listed is the call as the program's result lists it; nil if it is not listed.
	Listed *toolroom.ExecutionCall `json:"shown,omitempty"`
	// Approval is the approval that the call waits for, or waited for.
	Approval string `json:"approval,omitempty"`
	// NotBegun means that a call without a result has not had any effects.
	NotBegun bool `json:"unbegun,omitempty"`
	// Result is the answer; nil if there is none yet.
	Result *toolroom.Result `json:"result,omitempty"`
	// Labels are the taint labels of the program once it had the answer.
	Labels []taint.Label `json:"labels,omitempty"`
}

// JournalStore stores journals by the id of the call that runs the program, until that call's job
// has its result. Its methods are safe for concurrent use.
type JournalStore interface {
	// SaveJournal stores a journal, replacing an existing one.
	SaveJournal(ctx context.Context, call string, head *JournalHead, entries []JournalEntry) error
	// SaveJournalEntry stores one entry of a journal at its index, from 0.
	SaveJournalEntry(ctx context.Context, call string, place int, e JournalEntry) error
	// Journal returns the journal of a call, or an error with code not_found.
	Journal(ctx context.Context, call string) (*JournalHead, []JournalEntry, error)
}

// Journal is the journal of one run. The zero value is an empty journal. Its methods are
// safe for concurrent use.
type Journal struct {
	mu         sync.Mutex
	entries    []JournalEntry
	replay     []int         // indexes that the program has not requested again
	unreplayed int           // number of those that have an answer
	drained    chan struct{} // closed when unreplayed is 0
	saveEntry  func(place int, e JournalEntry) error
}

// ResumeJournal returns a journal with stored entries.
func ResumeJournal(entries []JournalEntry) *Journal {
	j := &Journal{entries: entries}
	j.Rewind()
	return j
}

// Rewind makes all recorded answers available for replay.
func (j *Journal) Rewind() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.replay, j.unreplayed = j.replay[:0], 0
	for place, e := range j.entries {
		j.replay = append(j.replay, place)
		if e.Result != nil {
			j.unreplayed++
		}
	}
	j.drained = make(chan struct{})
	if j.unreplayed == 0 {
		close(j.drained)
	}
}

// Persist calls saveAll with the entries so far, and from then on saveOne with each entry that
// is added or changed.
func (j *Journal) Persist(saveAll func([]JournalEntry) error, saveOne func(place int, e JournalEntry) error) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if err := saveAll(j.entries); err != nil {
		return err
	}
	j.saveEntry = saveOne
	return nil
}

// Ask records a request of a program before it is served. If the returned entry has a
// result, that is the recorded answer. Otherwise the request must be served. If again is
// set, the request was in progress when the program was interrupted; Ask returns such an
// entry only after all answers have been replayed. If a program makes a new request before
// all answers have been replayed, it has diverged, and the error is a [*Divergence].
func (j *Journal) Ask(ctx context.Context, e JournalEntry) (place int, found JournalEntry, again bool, err error) {
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
		if j.unreplayed--; j.unreplayed == 0 {
			close(j.drained)
		}
		j.mu.Unlock()
		return place, found, false, nil
	}
	defer j.mu.Unlock()
	if j.unreplayed > 0 {
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
	if j.saveEntry != nil {
		err = j.saveEntry(place, e)
	}
	return place, e, false, err
}

// Update changes an entry with change, and saves it after [Journal.Persist].
func (j *Journal) Update(place int, change func(*JournalEntry)) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	change(&j.entries[place])
	if j.saveEntry == nil {
		return nil
	}
	return j.saveEntry(place, j.entries[place])
}

// HasUnreplayed reports whether the program has not yet requested all recorded answers again.
func (j *Journal) HasUnreplayed() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.unreplayed > 0
}

// Calls returns the program's calls in the order in which they began.
func (j *Journal) Calls() []toolroom.ExecutionCall {
	j.mu.Lock()
	defer j.mu.Unlock()
	calls := []toolroom.ExecutionCall{}
	for _, e := range j.entries {
		if e.Listed != nil {
			calls = append(calls, *e.Listed)
		}
	}
	return calls
}

// Divergence is the error of a restarted program that made different requests.
type Divergence struct {
	// Asked is the tool that it called, and Expected the one that it called there before.
	Asked, Expected string
}

func (d *Divergence) Error() string {
	return "the program was restarted and diverged: it called " + d.Asked + " instead of " + d.Expected
}

// JournalResult converts the answer of a request that is not a tool call.
func JournalResult(value json.RawMessage, err error) *toolroom.Result {
	return &toolroom.Result{Value: value, Error: toolroom.AsError(err)}
}
