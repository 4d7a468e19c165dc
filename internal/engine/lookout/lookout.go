// Package lookout reads what another process answers within microseconds: who
// expects it at once looks for it for a moment before it sleeps, for to wake a
// processor that has gone idle takes as long as the answer.
package lookout

import (
	"io"
	"time"
)

// Longest is how long is looked before who reads sleeps: as long as it takes to
// wake the two processes of a question and its answer on a quiet virtual machine.
const Longest = 100 * time.Microsecond

// ceiling bounds what one wait counts, so that a few short ones make up for it.
const ceiling = 4 * Longest

// Habit is how soon that has come which was waited for. Its zero value knows
// nothing, and expects nothing soon.
type Habit struct{ average time.Duration }

// Soon tells whether it is worth looking: after a few short waits, and not after
// one that was long.
func (h *Habit) Soon() bool { return h.average > 0 && h.average < Longest }

// took notes a wait.
func (h *Habit) took(wait time.Duration) {
	if h.average == 0 {
		h.average = 2 * Longest
	}
	h.average += (min(wait, ceiling) - h.average) / 4
}

// Source is a stream that can be looked at.
type Source interface {
	// Try reads what is there, and does not wait: 0 and no error mean that there is
	// nothing yet.
	Try([]byte) (int, error)
	// Read waits.
	io.Reader
}

// Reader reads a source. One goroutine uses it at a time.
type Reader struct {
	source Source
	pause  func()           // between two looks
	now    func() time.Time // tells how long something took
	habit  *Habit
}

// NewReader makes a reader that sleeps, until [Reader.Expect] is called.
func NewReader(source Source) *Reader {
	return &Reader{source: source, pause: pause, now: time.Now}
}

// Expect says that what the next Read waits for comes by a habit, which learns of
// it. Nil has it sleep at once.
func (r *Reader) Expect(h *Habit) { r.habit = h }

// Read waits for bytes.
func (r *Reader) Read(b []byte) (int, error) {
	h := r.habit
	r.habit = nil
	if h == nil {
		return r.source.Read(b)
	}
	began := r.now()
	if !h.Soon() {
		n, err := r.source.Read(b)
		h.took(max(r.now().Sub(began)-Longest, 1)) // without what was waking
		return n, err
	}
	for {
		n, err := r.source.Try(b)
		if n == 0 && err == nil && r.now().Sub(began) > Longest {
			n, err = r.source.Read(b)
		}
		if n > 0 || err != nil {
			h.took(r.now().Sub(began))
			return n, err
		}
		r.pause()
	}
}
