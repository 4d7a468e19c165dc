// Package taint follows labels of what calls have read. A result carries the
// labels of its tool; whoever got it may put it into any later call, so the
// labels stay in reach for all that follows in the same run and session. What
// is in reach decides whether a call may send outside, see [Judge].
package taint

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// Labels with a meaning; all others are for written rules and for people.
const (
	// Untrusted is content that anybody may have written: it can hold orders to
	// a model.
	Untrusted = "untrusted"
	// Private is what must not get out.
	Private = "private"
)

// Mark says that something with a label was read through a tool.
type Mark struct {
	Label string `json:"label"`
	Tool  string `json:"tool"`
}

// String is the mark as receipts have it.
func (m Mark) String() string { return m.Label + " from " + m.Tool }

// maxMarks bounds what is remembered of one reach: labels are few, and of each
// some tools are enough to explain it.
const (
	maxMarks        = 256
	maxToolsOfLabel = 16
)

// Reach is what is in reach of a run. The zero Reach is empty and ready. Its
// methods are safe for concurrent use.
type Reach struct {
	mu    sync.Mutex
	marks []Mark
}

// Add puts marks in reach and reports which of them are new.
func (r *Reach) Add(marks ...Mark) (fresh []Mark) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, m := range marks {
		if slices.Contains(r.marks, m) || r.full(m.Label) {
			continue
		}
		r.marks = append(r.marks, m)
		fresh = append(fresh, m)
	}
	return fresh
}

// full reports whether another mark of a label would say nothing new. The first
// of each label always has room.
func (r *Reach) full(label string) bool {
	n := 0
	for _, m := range r.marks {
		if m.Label == label {
			n++
		}
	}
	return n >= maxToolsOfLabel || n > 0 && len(r.marks) >= maxMarks
}

// Marks are all that is in reach, in order.
func (r *Reach) Marks() []Mark {
	r.mu.Lock()
	defer r.mu.Unlock()
	return Sorted(r.marks)
}

// Sorted is a sorted copy without repeats.
func Sorted(marks []Mark) []Mark {
	out := slices.Clone(marks)
	slices.SortFunc(out, func(a, b Mark) int { return strings.Compare(a.String(), b.String()) })
	return slices.Compact(out)
}

// Labels are those of marks, in order, without repeats.
func Labels(marks []Mark) []string {
	var out []string
	for _, m := range marks {
		out = append(out, m.Label)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// Window is how long what was read without a session stays in reach of the same
// caller.
const Window = time.Hour

// Keep is how long what a session has read stays in reach after the last use of
// the session: whoever goes on with it keeps it so. It is long enough that no
// model works on with what it read then.
const Keep = 30 * 24 * time.Hour

// Store remembers what sessions have read. Its methods are safe for concurrent
// use, also by several processes on one store.
type Store interface {
	// Taints are the marks of a caller's session that are at least as new as
	// since, in no order.
	Taints(ctx context.Context, owner, session string, since time.Time) ([]Mark, error)
	// AddTaints adds marks, durably. One that is there becomes as new as now. It
	// removes marks, of all, that are older than Keep before now.
	AddTaints(ctx context.Context, owner, session string, marks []Mark, now time.Time) error
	// RemoveTaints forgets what a caller's session has read, durably, and says what
	// that was.
	RemoveTaints(ctx context.Context, owner, session string) ([]Mark, error)
}

// Judge says why a call that can send outside is dangerous: content that nobody
// vouches for and private data are both in reach. Empty is no danger. tool is
// where the call would send to.
func Judge(inReach []Mark, tool string) string {
	untrusted, private := toolsOf(inReach, Untrusted), toolsOf(inReach, Private)
	if untrusted == "" || private == "" {
		return ""
	}
	return fmt.Sprintf("this call would send data read from %s (private) to %s, with content from %s (untrusted) in reach", private, tool, untrusted)
}

// maxNamed is how many tools a sentence names.
const maxNamed = 3

func toolsOf(marks []Mark, label string) string {
	var tools []string
	for _, m := range Sorted(marks) {
		if m.Label == label {
			tools = append(tools, m.Tool)
		}
	}
	if more := len(tools) - maxNamed; more > 0 {
		tools = append(tools[:maxNamed], fmt.Sprintf("%d more", more))
	}
	return strings.Join(tools, ", ")
}
