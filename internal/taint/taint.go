// Package taint follows labels on what calls have read. A result carries the
// labels of its tool. The caller may put that result into any later call, so
// its labels taint every later call of the same run and session. The labels
// decide whether a call may send data outside, see [SendRisk].
package taint

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// The names of labels that Toolroom itself acts on; all others serve policy
// rules and people.
const (
	// Untrusted labels content that anyone may have written: it can hold
	// instructions to a model.
	Untrusted = "untrusted"
	// Private labels data that must not leave.
	Private = "private"
)

// Label records that something with a taint label was read through a tool.
type Label struct {
	Name string `json:"label"`
	Tool string `json:"tool"`
}

// String returns the label as receipts show it.
func (l Label) String() string { return l.Name + " from " + l.Tool }

// LabelsOf returns the labels with these names for content that was read through a tool.
func LabelsOf(names []string, tool string) []Label {
	var labels []Label
	for _, name := range names {
		labels = append(labels, Label{Name: name, Tool: tool})
	}
	return Sorted(labels)
}

// Limits of one set: there are few names, and some tools of each are enough to
// explain it.
const (
	maxLabels       = 256
	maxToolsPerName = 16
)

// Set holds the taint labels of a run. The zero Set is empty and ready to use.
// Its methods are safe for concurrent use.
type Set struct {
	mu     sync.Mutex
	labels []Label
}

// Add adds labels and returns those that are new.
func (s *Set) Add(labels ...Label) (fresh []Label) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range labels {
		if slices.Contains(s.labels, l) || s.isFull(l.Name) {
			continue
		}
		s.labels = append(s.labels, l)
		fresh = append(fresh, l)
	}
	return fresh
}

// isFull reports whether another label of this name would add no information. The
// first label of each name always fits.
func (s *Set) isFull(name string) bool {
	n := 0
	for _, l := range s.labels {
		if l.Name == name {
			n++
		}
	}
	return n >= maxToolsPerName || n > 0 && len(s.labels) >= maxLabels
}

// Labels returns all labels of the set, sorted.
func (s *Set) Labels() []Label {
	s.mu.Lock()
	defer s.mu.Unlock()
	return Sorted(s.labels)
}

// Sorted returns a sorted copy of labels without duplicates.
func Sorted(labels []Label) []Label {
	out := slices.Clone(labels)
	slices.SortFunc(out, func(a, b Label) int { return strings.Compare(a.String(), b.String()) })
	return slices.Compact(out)
}

// Names returns the names of labels, sorted and without duplicates.
func Names(labels []Label) []string {
	var out []string
	for _, l := range labels {
		out = append(out, l.Name)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// Window is how long labels that were read without a session taint later calls
// of the same caller.
const Window = time.Hour

// Retention is how long the labels of a session are kept after its last use; each use
// renews them. It is long enough that no model still works with content that it
// read so long ago.
const Retention = 30 * 24 * time.Hour

// Store remembers the labels of sessions. Its methods are safe for concurrent
// use, also by several processes on one store.
type Store interface {
	// Taints returns the labels of a caller's session that are at least as new as
	// since, in no order.
	Taints(ctx context.Context, owner, session string, since time.Time) ([]Label, error)
	// AddTaints adds labels durably. A label that is already there becomes as new
	// as now. AddTaints also removes the labels of all sessions that are older
	// than Retention before now.
	AddTaints(ctx context.Context, owner, session string, labels []Label, now time.Time) error
	// RemoveTaints durably removes the labels of a caller's session, and returns
	// them.
	RemoveTaints(ctx context.Context, owner, session string) ([]Label, error)
}

// SendRisk returns the reason why a call that can send data outside is dangerous:
// its labels name both untrusted content and private data. An empty reason means
// no danger. tool is the tool that would send.
func SendRisk(labels []Label, tool string) string {
	untrusted, private := toolsOf(labels, Untrusted), toolsOf(labels, Private)
	if untrusted == "" || private == "" {
		return ""
	}
	return fmt.Sprintf("this call would send data read from %s (private) to %s, after content from %s (untrusted) was read", private, tool, untrusted)
}

// maxNamed is how many tools a reason names.
const maxNamed = 3

func toolsOf(labels []Label, name string) string {
	var tools []string
	for _, l := range Sorted(labels) {
		if l.Name == name {
			tools = append(tools, l.Tool)
		}
	}
	if more := len(tools) - maxNamed; more > 0 {
		tools = append(tools[:maxNamed], fmt.Sprintf("%d more", more))
	}
	return strings.Join(tools, ", ")
}

type sessionKey struct{}

// WithSession returns a context in which stored data is read for a caller's session, outside
// any call. Its labels taint that session.
func WithSession(ctx context.Context, session string) context.Context {
	return context.WithValue(ctx, sessionKey{}, session)
}

// SessionFrom returns the session of [WithSession], or "".
func SessionFrom(ctx context.Context) string {
	session, _ := ctx.Value(sessionKey{}).(string)
	return session
}
