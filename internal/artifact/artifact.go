// Package artifact stores bytes outside a model's context under a handle: the whole of
// truncated results, and files that tools made. Begin with [Open]; [Store.Read] reads
// artifacts in pages.
//
// The bytes are in files, one folder per owner. An [Index] lists the artifacts.
package artifact

import (
	"context"
	"crypto/rand"
	"fmt"
	"strings"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/taint"
)

// Kind is the kind of an artifact. Each kind has its own limits.
type Kind string

// The kinds.
const (
	// Result is the whole of a result that was truncated.
	Result Kind = "result"
	// File is a file that a tool made or received.
	File Kind = "file"
)

// Entry is the index entry of one artifact.
type Entry struct {
	Handle string
	// Owner is the owner name of the identity that made it; see [identity.Owner].
	Owner    string
	Kind     Kind
	Name     string
	MIMEType string
	Size     int64
	Created  time.Time
	Expires  time.Time
	// Labels are the taint labels of the bytes.
	Labels []taint.Label
}

// Artifact returns the entry as callers see it.
func (e *Entry) Artifact() toolroom.Artifact {
	return toolroom.Artifact{Handle: e.Handle, Name: e.Name, MIMEType: e.MIMEType, Size: e.Size, Expires: e.Expires}
}

// Index stores the entries of artifacts. Its methods are safe for concurrent use, also by
// several processes on one index. For all methods but SweepArtifacts and ArtifactHandles, an
// entry whose Expires is not after now does not exist. Owners are names that [identity.Owner]
// returns; a method returns the entries whose makers the owner reaches. Limits apply to the
// subject of an owner.
type Index interface {
	// AddArtifact durably stores an entry, or returns the error of [Limits.Admit] if its
	// subject then has too much of the kind. Concurrent calls cannot exceed the limits.
	AddArtifact(ctx context.Context, e *Entry, limits Limits) error
	// ArtifactUsage returns how much the subject of an owner has stored of a kind.
	ArtifactUsage(ctx context.Context, owner string, kind Kind, now time.Time) (Usage, error)
	// Artifact returns an entry that an owner reaches, or an error with code not_found.
	Artifact(ctx context.Context, owner, handle string, now time.Time) (*Entry, error)
	// Artifacts returns the entries that an owner reaches, oldest first.
	Artifacts(ctx context.Context, owner string, now time.Time) ([]*Entry, error)
	// DeleteArtifact removes an entry that an owner reaches. If there is none, the error has
	// code not_found.
	DeleteArtifact(ctx context.Context, owner, handle string, now time.Time) error
	// SweepArtifacts removes and returns the entries that have expired.
	SweepArtifacts(ctx context.Context, now time.Time) ([]*Entry, error)
	// ArtifactHandles returns the handles of all entries, including expired ones.
	ArtifactHandles(ctx context.Context) (map[string]bool, error)
}

// Limits bound what one subject may store of one kind.
type Limits struct {
	Entries int           // how many
	Total   int64         // bytes in all
	Each    int64         // bytes of one
	TTL     time.Duration // how long each is kept
}

// Usage is how much one subject has stored of one kind.
type Usage struct {
	Entries int
	Bytes   int64
}

// DefaultLimits are the limits of a kind, unless configured otherwise.
func DefaultLimits(kind Kind) Limits {
	if kind == Result {
		return Limits{Entries: 64, Total: 32 << 20, Each: 8 << 20, TTL: time.Hour}
	}
	return Limits{Entries: 32, Total: 256 << 20, Each: 64 << 20, TTL: time.Hour}
}

// withDefaults fills in the limits that are not set.
func (l Limits) withDefaults(kind Kind) Limits {
	d := DefaultLimits(kind)
	if l.Entries > 0 {
		d.Entries = l.Entries
	}
	if l.Total > 0 {
		d.Total = l.Total
	}
	if l.Each > 0 {
		d.Each = l.Each
	}
	if l.TTL > 0 {
		d.TTL = l.TTL
	}
	return d
}

// Admit returns nil if a subject with this usage may add an entry of size bytes, and otherwise
// an error with code resource_limit that says how to free space. [Store.PutResult] removes the
// oldest results for a new one; files stay until they expire.
func (l Limits) Admit(kind Kind, used Usage, size int64) error {
	var message string
	switch {
	case size > l.Each:
		return &toolroom.Error{
			Code:    toolroom.CodeResourceLimit,
			Phase:   toolroom.PhaseShape,
			Message: fmt.Sprintf("the %s is larger than %d bytes, which is the limit for one", kind, l.Each),
			Hint:    "ask the tool for less at once: a page, a filter, a part",
		}
	case used.Entries >= l.Entries:
		message = fmt.Sprintf("there are %d %ss already, which is the limit", used.Entries, kind)
	case used.Bytes+size > l.Total:
		message = fmt.Sprintf("the %ss that are there take %d of %d bytes, which leaves too little room for this one", kind, used.Bytes, l.Total)
	default:
		return nil
	}
	return &toolroom.Error{
		Code:    toolroom.CodeResourceLimit,
		Phase:   toolroom.PhaseShape,
		Message: message,
		Hint:    fmt.Sprintf("delete what is not needed, or wait: each is kept for %v", l.TTL),
		CLIHint: "toolroom artifact list, toolroom artifact delete HANDLE",
	}
}

func newHandle(kind Kind) string {
	prefix := "art_"
	if kind == Result {
		prefix = "res_"
	}
	return prefix + strings.ToLower(rand.Text())
}

// isHandle reports whether s has the form of a handle. Other texts must not become file names.
func isHandle(s string) bool {
	rest, ok := strings.CutPrefix(s, "art_")
	if !ok {
		rest, ok = strings.CutPrefix(s, "res_")
	}
	return ok && rest != "" && strings.Trim(rest, "abcdefghijklmnopqrstuvwxyz234567") == ""
}

// NotFound returns the error for an unknown handle, or one that its caller does not reach.
func NotFound(handle string) *toolroom.Error {
	return &toolroom.Error{
		Code:    toolroom.CodeNotFound,
		Message: fmt.Sprintf("there is no artifact %q", handle),
		Hint:    "artifacts belong to who made them and expire: repeat the call that made it",
		CLIHint: "toolroom artifact list",
	}
}
